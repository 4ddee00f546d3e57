import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { tables } from "../../src/schemas/registry.ts";
import { erase, nobody } from "./suite/erased-couple.ts";
import { commitPersons, looseRecord, readRows, wholePerson } from "./suite/person-updates.ts";
import { answerOf, begin, callOf, commitOf, runOf } from "./suite/nights.ts";
import { makePeople, resolveSpec } from "./suite/people.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import { useContext } from "./postgres-context.ts";

const context = useContext();

/** JSON values that name the erased person, each in another form. */
const naming = [
  { candidates: ["p-ann"] },
  { household: [{ service_pid: "p-ann" }] },
  { url: "https://service.example/people/p-ann?from=list" },
  { photo: "p-ann_200x200.jpg" },
  { "p-ann": true },
  { email: "ANN@Home.example" },
  { emails: "office@firm.example; ann@home.example" },
  { emails: "ann@home.example,office@firm.example" },
  { link: "mailto:ann@home.example" },
  { link: "mailto:?to=ann@home.example&cc=x@firm.example" },
  { link: "mailto:ann%40home.example" },
  { sender: "Ann Lee <ann@home.example>" },
  { sender: '"Ann" (ann@home.example)' },
  { note: "Write to ann@home.example." },
  { note: "first line\nann@home.example\tlast" },
  { "ann@home.example": 1 },
];

/** JSON values that name others. */
const others = [
  { candidates: ["p-annette", "p-an"] },
  { email: "xann@home.example" },
  { email: "ann@home.example.org" },
  { email: "ann@home" },
  { note: "Ann Lee at home.example" },
  {},
];

/** JSON columns of the tables with people's data. */
const jsonColumns = tables
  .filter(({ schema, people }) => schema === "data" && people !== "kept")
  .flatMap((table) =>
    table.columns.filter(({ type }) => type === "json").map(({ name }) => ({ table, name })),
  );

/** Values of required columns by type; `n` is the number of the row. */
const samples: Readonly<Record<string, string>> = {
  text: "'row ' || n",
  "text[]": "'{}'",
  integer: "n",
  position: "n",
  boolean: "true",
  timestamptz: "'2020-01-01'",
  uuid: "gen_random_uuid()",
};

/** Inserts one row with each of these JSON values in every table with JSON columns. */
async function fillTables(values: readonly unknown[]): Promise<void> {
  for (const { name, columns } of new Set(jsonColumns.map(({ table }) => table))) {
    const filled = columns.filter(
      (column) => column.required || column.type === "json" || column.name === "service_pid",
    );
    const cells = filled.map(({ type, values: [first] = [] }) =>
      first === undefined ? (type === "json" ? "value" : (samples[type] ?? "NULL")) : `'${first}'`,
    );
    await context.sql(
      `INSERT INTO person_data.${name} (${filled.map((column) => `"${column.name}"`).join(", ")})
       SELECT ${cells.join(", ")} FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS u(value, n)`,
      [JSON.stringify(values)],
    );
  }
}

const jsonText = (values: readonly unknown[]) => values.map((value) => JSON.stringify(value)).toSorted();

describe("a JSON value that names an erased person", () => {
  test("is removed from every JSON column, and the row stays", async () => {
    await makePeople(context, []);
    await fillTables([...naming, ...others]);
    const subjects = { pids: ["p-ann"], emails: ["ann@home.example"], rows: [] };
    const counted = await context.warehouse.countPeople(subjects);
    const found = { people: subjects, seed: nobody, sharedEmails: [], sparesOthers: true, isKnown: true };
    const removed = await context.warehouse.removeErased(
      (await context.warehouse.requestErasure(found)).erasureId,
    );
    expect(removed).toEqual(counted);
    expect(jsonColumns.map(({ table, name }) => `${table.name}.${name}`)).toContain("person._extra");
    for (const { table, name } of jsonColumns) {
      const rows = await context.sql(
        `SELECT "${name}" AS json, _synced_at > '2020-01-02' AS is_changed FROM person_data.${table.name}`,
      );
      const left = rows.flatMap((row) => (row["json"] ? [JSON.parse(row["json"])] : []));
      expect([table.name, name, jsonText(left)]).toEqual([table.name, name, jsonText(others)]);
      expect([table.name, rows.length]).toEqual([table.name, naming.length + others.length]);
      expect(rows.filter((row) => row["is_changed"] === "true")).toHaveLength(naming.length);
    }
  });

  test("is not stored with the answer of another person", async () => {
    await makePeople(context, []);
    await erase(context, { pids: ["p-ann"], emails: ["ann@home.example"] });
    const values = [...others, ...naming];
    const pids = values.map((_, i) => `p-${String(i).padStart(3, "0")}`);
    const persons = values.map((json, i) =>
      wholePerson(pids[i] ?? "", {
        household: json,
        phones: [{ phone_number: "1", phone_rank: 1, carrier: json }],
      }),
    );
    for (const day of [1, 2]) {
      const completedAt = `2026-11-0${day}T00:00:00.000001+00:00`;
      await commitPersons(context, persons, { keys: values.map((_, i) => `row-${i}`), completedAt });
      for (const table of ["person", "person_phone"]) {
        expect(await columnOf(context, `SELECT count(*) FROM person_data.${table}`)).toEqual([
          String(values.length),
        ]);
        expect(
          await columnOf(
            context,
            `SELECT service_pid FROM person_data.${table} WHERE _extra IS NOT NULL ORDER BY 1`,
          ),
        ).toEqual(pids.slice(0, others.length));
      }
    }
  });

  test("is not stored with an answer about another row", async () => {
    const { warehouse } = context;
    await makePeople(context, []);
    await erase(context, { pids: ["p-ann"] });
    const spec = resolveSpec();
    const run = await begin(warehouse, spec, randomUUID());
    await readRows(context, spec, run, ["row-0", "row-1"]);
    const call = callOf({ callId: randomUUID() });
    const outcome = { call, completedAt: "2026-11-21T04:00:00.000000+00:00" };
    const answers = ["p-ann", "p-annette"].map((pid, i) => ({
      ...answerOf(warehouse, spec, looseRecord(`row-${i}`), { pid: `p-${i}` }, outcome),
      extra: JSON.stringify({ candidates: [pid] }),
    }));
    await warehouse.commitLookup({ ...commitOf(warehouse, spec, run, [], outcome), answers });
    expect(
      await context.sql("SELECT service_pid, _extra FROM person_data.resolution ORDER BY source_key"),
    ).toEqual([
      { service_pid: "p-0", _extra: null },
      { service_pid: "p-1", _extra: '{"candidates": ["p-annette"]}' },
    ]);
  });

  test("is not stored with the rows of a feed", async () => {
    await makePeople(context, []);
    await erase(context, { pids: ["p-ann"], emails: ["ann@home.example"] });
    const spec = { job: "one", type: "enrich" } as const;
    await context.warehouse.beginRun(runOf(spec));
    await context.sql("INSERT INTO person_data.contact_job (job_id, _run_id) VALUES ('j-1', '')");
    const values = [...naming, ...others];
    const results = await context.warehouse.commitFeed({
      run: runOf(spec),
      calls: [],
      drift: [],
      counters: {},
      checkpoints: [],
      upserts: [
        {
          table: "contact_job_result",
          columns: ["job_id", "position", "service_pid", "full_name", "jacket"],
          rows: [
            ...values.map((json, i) => ["j-1", String(i), `p-${i}`, "Somebody", JSON.stringify(json)]),
            ["j-2", "0", "p-ann", "Ann Lee", "{}"],
            // Only its jacket says whose it is.
            ["j-3", "0", null, "Ann Lee", '{"email": "ann@home.example"}'],
          ],
        },
      ],
    });
    expect(results).toMatchObject([{ given: values.length, suppressed: 2, inserted: values.length }]);
    const stored = await columnOf(
      context,
      "SELECT jacket FROM person_data.contact_job_result ORDER BY position",
    );
    expect(stored.map((json) => JSON.parse(json ?? "null"))).toEqual([...naming.map(() => null), ...others]);
    expect(
      await valueOf(
        context,
        "SELECT count(*) FROM person_data.contact_job_result WHERE full_name = 'Ann Lee'",
      ),
    ).toBe("0");
  });
});
