import { describe, expect, test } from "vitest";
import { contradictionsOf } from "./cases.ts";
import { type Night, names, openWorld, put } from "./night.ts";

const people = (count: number) =>
  `INSERT INTO crm.customers (id, name, email) SELECT i, 'Ann' || i, 'a' || i || '@x' FROM generate_series(1, ${count}) AS i`;
const all = Array.from({ length: 40 }, (_, i) => `Ann${i + 1} a${i + 1}@x`).toSorted();
const both = {
  jobs: `{ resolve: { type: resolve, input: customers }, enrich: { type: enrich, input: customers, pid_from: resolve } }`,
};

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

describe("shards", () => {
  test.each([
    [2, false],
    [3, false],
    [2, true],
    [3, true],
  ])("%i of a run are disjoint and do everything together (at once: %s)", async (count, isParallel) => {
    const world = await openWorld();
    const nights = await world.nightOfShards(count, { edit: people(40), isParallel });
    expect(world.service.received()).toEqual({ enrich: all });
    expect([sumOf(nights, "enrich", "read"), sumOf(nights, "enrich", "sent")]).toEqual([40, 40]);
    for (const night of nights) expect(await contradictionsOf(world, night)).toEqual([]);
    expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["40"]);

    const quiet = await world.nightOfShards(count);
    expect(world.service.received()).toEqual({});
    expect(sumOf(quiet, "enrich", "unchanged")).toBe(40);
  });

  test("of another number, or none, find nothing due afterwards", async () => {
    const world = await openWorld();
    await world.nightOfShards(2, { edit: people(40) });
    await world.nightOfShards(3);
    expect(world.service.received()).toEqual({});
    expect((await world.night()).sent).toEqual({});
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
    },
  );

  test("share the cap of a run", async () => {
    const world = await openWorld();
    const nights = await world.nightOfShards(3, { edit: people(40), flags: { maxRecords: 8 } });
    expect(sumOf(nights, "enrich", "sent")).toBe(8);
    expect(nights.map(({ report }) => report?.jobs[0]?.records_sent)).toEqual([3, 3, 2]);
  });

  test("share a budget per day", async () => {
    const world = await openWorld({
      jobs: "{ one: { type: enrich, input: customers } }",
      more: "budgets: { enrich: { per_day: 10 } }",
    });
    const nights = await world.nightOfShards(2, { edit: people(40), isParallel: true });
    expect(sumOf(nights, "one", "sent")).toBe(10);
  });

  test("mark rows that left", async () => {
    const world = await openWorld();
    await world.nightOfShards(2, { edit: people(40) });
    await world.nightOfShards(2, { edit: "DELETE FROM crm.customers WHERE id > 30" });
    expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["30"]);
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

  test("send rows once that differ only in an invalid address", async () => {
    const world = await openWorld({
      inputs: "{ customers: { table: crm.customers, key: id, fields: { emails: [email, work_email] } } }",
      jobs: `{ validate: { type: validate_emails, input: customers },
        enrich: { type: enrich, input: customers, valid_emails_from: validate } }`,
    });
    const edit = Array.from({ length: 12 }, (_, i) =>
      put(i, null, { email: `bad${i}@x`, work_email: "a@x" }),
    ).join("");
    await world.night({ edit, flags: { jobs: ["validate"] } });
    await world.nightOfShards(3, { flags: { jobs: ["enrich"] } });
    expect(world.service.received()).toEqual({ enrich: ["a@x"] });
    expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["12"]);
  });
});

describe("a job that another process runs", () => {
  test("is refused, and sends nothing", async () => {
    const world = await openWorld();
    const beside: Promise<Night>[] = [];
    const night = await world.night({
      edit: names("Ann"),
      service: {
        // The first run waits in its call for the end of the second one.
        during: async () => {
          if (beside.length === 0) beside.push(world.runBeside());
          await Promise.all(beside);
        },
      },
    });
    expect((await Promise.all(beside)).map(({ report }) => report?.status)).toEqual(["locked"]);
    expect(night.report?.status).toBe("succeeded");
    expect(night.sent).toEqual({ enrich: ["Ann"] });
  });
});
