import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";
import { ODD_SETTINGS } from "./odd-settings.ts";
import { connectAsText, useContext } from "./postgres-context.ts";
import { gist, holdJobs, matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, people, resolveSpec, validateSpec } from "./suite/people.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";

const context = useContext();

describe("an input behind another connection", () => {
  let elsewhere: TestDatabase;
  beforeAll(async () => {
    elsewhere = await createDatabase();
  });
  afterAll(() => elsewhere.release());

  test("gives the same as one in the warehouse", async () => {
    const create = `CREATE TABLE crm.people (id numeric, first_name text, last_name text, email text, phone text[],
      updated_at timestamptz)`;
    const fill = `INSERT INTO crm.people SELECT i, E'tab\\tline\\nback\\\\slash "' || i || CASE WHEN i % 7 = 0 THEN ' é' ELSE '' END,
      CASE WHEN i % 5 > 0 THEN 'Lee' END, CASE WHEN i % 3 > 0 THEN 'x' || (i % 200) || '@example.com' ELSE ' ' END,
      CASE WHEN i % 4 > 0 THEN ARRAY['555' || i, NULL] END, timestamptz '2026-01-01 00:00:00+00' + i * interval '1 hour'
      FROM generate_series(1, 500) AS i UNION ALL SELECT NULL, 'a', 'b', 'c', NULL, NULL UNION ALL SELECT 9.0, 'd', 'e', 'f', NULL, NULL`;
    const there = await connectAsText(elsewhere.url);
    await there.query("CREATE SCHEMA crm");
    await there.query(create);
    await there.query(fill);
    await context.sql(create);
    await context.sql(fill);

    const base: InputSource = {
      ...people,
      where: "id IS NULL OR id <> 13",
      orderBy: "id DESC NULLS LAST",
    };
    const local = { ...base, name: "local" };
    const connection = { type: "postgres", name: "crm", url: elsewhere.url } as const;
    const foreign: InputSource = { ...base, name: "foreign", connection };
    expect(await context.warehouse.checkInput(foreign)).toEqual([]);
    for (const of of [resolveSpec, enrichSpec, validateSpec]) {
      for (const maxRecords of [50, null]) {
        const nights = [];
        for (const input of [local, foreign]) {
          const fields = of === validateSpec ? { emails: ["email"] } : base.fields;
          const job = `${of({}).type} ${input.name}`;
          if (maxRecords !== null) await holdJobs(context.warehouse, [job]);
          // Otherwise the second job would get the answers of the first.
          const kind = `${of().type}:${input.name}`;
          const spec = of({ job, kind, input: { ...input, fields }, maxRecords });
          const { counts, sent } = await runNight(context, spec, matchAll);
          nights.push({ counts, sent });
        }
        expect(nights[0]).toEqual(nights[1]);
        expect(nights[0]?.counts.toSend).toBeGreaterThan(20);
      }
    }
    const shardsOf = (input: InputSource) =>
      Promise.all(
        [0, 1, 2].map((index) =>
          context.warehouse.previewLookup(
            enrichSpec({ job: "in shards", input, shard: { index, count: 3 } }),
            0,
          ),
        ),
      );
    const shards = await shardsOf(local);
    expect(await shardsOf(foreign)).toEqual(shards);
    expect(shards.map(({ counts }) => counts.read)).toEqual([169, 164, 168]);
    const changes =
      "UPDATE crm.people SET last_name = 'Ray', updated_at = '2026-06-01 00:00:00+00' WHERE id IN (1, 2)";
    await there.query(changes);
    const again = enrichSpec({ job: "enrich foreign", kind: "enrich:foreign", input: foreign });
    const { sent, counts } = await runNight(context, again, matchAll);
    expect(Object.keys(sent)).toEqual(["1", "2"]);
    expect(gist(counts)).toMatchObject({ dueReasons: { content_changed: 2 } });
    await there.end();
  });

  test("whose database has odd settings gives the same too", async () => {
    const there = await connectAsText(elsewhere.url);
    await there.query(
      "CREATE TABLE public.dates (id timestamptz PRIMARY KEY, first_name date, emails text[])",
    );
    await there.query(`INSERT INTO public.dates VALUES ('2026-01-02 00:00:00+00', '2026-02-03', '{a,NULL}')`);
    const input = {
      ...people,
      name: "dates",
      relation: { table: ["dates"] },
      fields: { first_name: ["first_name"], emails: ["emails"] },
    };
    const at = (name: string) =>
      enrichSpec({ input: { ...input, connection: { type: "postgres", name, url: elsewhere.url } } });
    const first = await runNight(context, at("plain"), matchAll);
    expect(first.sent).toEqual({ "2026-01-02 00:00:00+00": { first_name: "2026-02-03", emails: ["a"] } });
    const name = new URL(elsewhere.url).pathname.slice(1);
    for (const setting of ODD_SETTINGS) await there.query(`ALTER DATABASE ${name} SET ${setting}`);
    expect(gist((await runNight(context, at("odd"))).counts)).toEqual({ read: 1, unchanged: 1 });
    await there.query(`ALTER DATABASE ${name} RESET ALL`);
    await there.end();
  });
});

test("an unreachable connection is reported by its name, also for a plan", async () => {
  const connection = { type: "postgres", name: "crm", url: "postgresql://127.0.0.1:1/crm" } as const;
  const input = { ...people, connection };
  const refusal = {
    code: "database_unreachable",
    message: expect.stringMatching(
      /^Connection crm can't be used: nothing listens .* connections\.crm\.url /,
    ),
  };
  await expect(context.warehouse.checkInput(input)).rejects.toMatchObject(refusal);
  await expect(context.warehouse.previewLookup(enrichSpec({ input }), 0)).rejects.toMatchObject(refusal);
});
