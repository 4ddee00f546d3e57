import { describe, expect, test } from "vitest";
import { contradictionsOf } from "./cases.ts";
import { type Night, names, openWorld, put } from "./night.ts";
import type { Script } from "./scripted-service.ts";

const people = (count: number) =>
  `INSERT INTO crm.customers (id, name, email) SELECT i, 'Ann' || i, 'a' || i || '@x' FROM generate_series(1, ${count}) AS i`;
const all = Array.from({ length: 40 }, (_, i) => `Ann${i + 1} a${i + 1}@x`).toSorted();
const both = {
  jobs: `{ resolve: { type: resolve, input: customers }, enrich: { type: enrich, input: customers, pid_from: resolve } }`,
};

/** Job in the document of `status`. */
interface JobStatus {
  readonly coverage: Readonly<Record<"input_rows" | "shards_counted" | "shards", number>> | null;
  readonly last_pass: readonly { readonly shard: string; readonly status: string }[];
  readonly last_success_at: string | null;
}

/** Sum of a counter over the shards, of one job. */
function sumOf(
  nights: readonly Night[],
  job: string,
  counter: "read" | "sent" | "duplicate" | "unchanged",
): number {
  return nights
    .flatMap(({ report }) => report?.jobs ?? [])
    .filter((one) => one.job === job)
    .reduce((sum, one) => sum + one[`records_${counter}`], 0);
}

const leaves = (id: number) => `DELETE FROM crm.customers WHERE id = ${id}`;

describe("shards", () => {
  test.each([
    [2, false],
    [3, true],
  ])("%i of a run are disjoint and do everything together (at once: %s)", async (count, isParallel) => {
    const world = await openWorld();
    const nights = await world.nightOfShards(count, { edit: people(40), isParallel });
    expect(world.service.received()).toEqual({ enrich: all });
    expect([sumOf(nights, "enrich", "read"), sumOf(nights, "enrich", "sent")]).toEqual([40, 40]);
    for (const night of nights) expect(await contradictionsOf(world, night)).toEqual([]);
    expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["40"]);

    for (const other of [count, count + 1, 1]) {
      const quiet = await world.nightOfShards(other);
      expect(world.service.received()).toEqual({});
      expect(sumOf(quiet, "enrich", "unchanged")).toBe(40);
    }
    await world.nightOfShards(count, { edit: "DELETE FROM crm.customers WHERE id > 30" });
    expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["30"]);
  });

  test("of a job with pid_from have each row in the same shard as the job that resolves it", async () => {
    const world = await openWorld(both);
    const nights = await world.nightOfShards(3, { edit: people(40) });
    expect(world.service.received().resolve).toEqual(all);
    expect(world.service.received().enrich).toHaveLength(40);
    expect([sumOf(nights, "resolve", "sent"), sumOf(nights, "enrich", "sent")]).toEqual([40, 40]);
  });

  test("send equal rows once", async () => {
    const world = await openWorld();
    const nights = await world.nightOfShards(2, { edit: names("Ann", "Ann", "Bob", "Ann", "Bob", "Cid") });
    expect(world.service.received()).toEqual({ enrich: ["Ann", "Bob", "Cid"] });
    expect([sumOf(nights, "enrich", "sent"), sumOf(nights, "enrich", "duplicate")]).toEqual([3, 3]);
  });

  test.each(["resend", "keep"] as const)(
    "accept changed parameters with %s for all rows",
    async (decision) => {
      const world = await openWorld();
      await world.nightOfShards(2, { edit: people(40) });
      await world.nightOfShards(2, {
        edit: put(41, "Bob"),
        config: { jobs: "{ enrich: { type: enrich, input: customers, return_fields: [phones] } }" },
        flags: { acceptParameters: decision },
      });
      expect(world.service.received()).toEqual({ enrich: decision === "keep" ? ["Bob"] : [...all, "Bob"] });
      // A row without a fingerprint would be read again, as if its reject had been retried.
      expect(
        await world.lines("SELECT source_key FROM person_data_state.lookup_row WHERE fingerprint IS NULL"),
      ).toEqual([]);
    },
  );

  test("share the cap of a run", async () => {
    const world = await openWorld();
    const nights = await world.nightOfShards(3, { edit: people(40), flags: { maxRecords: 8 } });
    expect(sumOf(nights, "enrich", "sent")).toBe(8);
    expect(nights.map(({ report }) => report?.jobs[0]?.records_sent)).toEqual([3, 3, 2]);
  });

  test("cover the whole input in status once every one has ended, and until then the last whole run", async () => {
    const world = await openWorld();
    const end = async (index: number, count: number, edit: string, service: Script = {}) => {
      await world.night({ edit, service, flags: { shard: { index, count } } });
      const { jobs } = await world.command(["status"]);
      // The document of status.
      const [job] = jobs as readonly JobStatus[];
      if (!job?.coverage) throw new Error("no coverage");
      const { coverage, last_pass: pass, last_success_at: success } = job;
      const ends = pass.map(({ shard, status }) => `${shard} ${status}`).join(", ");
      return [
        coverage.input_rows,
        `${coverage.shards_counted} of ${coverage.shards}`,
        ends,
        success !== null,
      ];
    };
    const failing: Script = { call: () => ({ status: 403 }) };
    const [rows] = await end(0, 2, people(40));
    expect(await end(1, 2, "", failing)).toEqual([40, "2 of 2", "0/2 succeeded, 1/2 failed", false]);
    expect(rows).toBeLessThan(40);
    expect(await end(1, 2, "")).toEqual([40, "2 of 2", "0/2 succeeded, 1/2 succeeded", true]);
    expect(await end(0, 1, leaves(1))).toEqual([39, "1 of 1", "0/1 succeeded", true]);
    expect((await end(0, 3, leaves(2)))[0]).toBe(39);
    expect((await end(1, 3, ""))[0]).toBe(39);
    expect((await end(2, 3, ""))[0]).toBe(38);
  });

  test("reject duplicate keys once, and choose one copy together", async () => {
    const world = await openWorld();
    const edit =
      "INSERT INTO crm.customers (id, name) VALUES (1, 'Ann'), (1, 'Bob'), (2, 'Cid'), (2, 'Dan'), (3, 'Eve')";
    await world.nightOfShards(3, { edit });
    expect(world.service.received()).toEqual({ enrich: ["Ann", "Cid", "Eve"] });
    expect(await world.lines("SELECT source_key, code FROM reject")).toEqual([
      "1|duplicate_key",
      "2|duplicate_key",
    ]);
  });

  test("of validate_emails send each address once", async () => {
    const world = await openWorld({ jobs: "{ validate: { type: validate_emails, input: customers } }" });
    const edit =
      put(1, "Ann", { email: "a@x", work_email: "b@x" }) +
      put(2, "Bob", { email: "b@x" }) +
      put(3, "Cid", { email: "a@x" });
    const nights = await world.nightOfShards(2, { edit });
    expect(world.service.received()).toEqual({ validate_emails: ["a@x", "b@x"] });
    const [unchanged, duplicate] = [
      sumOf(nights, "validate", "unchanged"),
      sumOf(nights, "validate", "duplicate"),
    ];
    expect([sumOf(nights, "validate", "read"), unchanged + duplicate]).toEqual([4, 2]);
  });
});
