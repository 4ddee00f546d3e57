import { expect, onTestFinished, test } from "vitest";
import type { ExtraColumns } from "../../src/schemas/extra-columns.ts";
import { openWarehouse } from "../support/bound-load.ts";
import { useContext } from "./postgres-context.ts";
import { commitPersons, wholePerson } from "./suite/person-updates.ts";

const EXTRA: ExtraColumns = {
  premium_text: "text",
  premium_count: "integer",
  premium_value: "numeric",
  premium_flag: "boolean",
  premium_day: "date",
};

/** Values of the field of each type, with what its column holds. */
const CASES: readonly (readonly [unknown, Readonly<Record<string, string | null>>])[] = [
  ["x", { premium_text: "x" }],
  [7, { premium_text: "7", premium_count: "7", premium_value: "7" }],
  ["-12", { premium_text: "-12", premium_count: "-12", premium_value: "-12" }],
  [1.5, { premium_text: "1.5", premium_value: "1.5" }],
  ["1e400", { premium_text: "1e400" }],
  ["9".repeat(30), { premium_text: "9".repeat(30) }],
  [true, { premium_text: "true", premium_flag: "true" }],
  ["N", { premium_text: "N", premium_flag: "false" }],
  ["2024-02-29", { premium_text: "2024-02-29", premium_day: "2024-02-29" }],
  ["2023-02-29", { premium_text: "2023-02-29" }],
  ["2023-13-01", { premium_text: "2023-13-01" }],
  ["0000-01-01", { premium_text: "0000-01-01" }],
  ["2023-01-00", { premium_text: "2023-01-00" }],
  [{ a: 1 }, {}],
  [["x"], {}],
  [null, {}],
];

const pidOf = (prefix: string, i: number) => `${prefix}${String(i).padStart(2, "0")}`;
const COLUMNS = Object.keys(EXTRA);
const person = (pid: string, value: unknown) =>
  wholePerson(pid, Object.fromEntries(COLUMNS.map((name) => [name, value])));
const peopleOf = (prefix: string) => CASES.map(([value], i) => person(pidOf(prefix, i), value));
const expected = CASES.map(([, row]) => ({
  ...Object.fromEntries(COLUMNS.map((name) => [name, null])),
  ...row,
}));

const context = useContext();

test("fields that the interface doesn't name get typed columns, in stored people and in new ones", async () => {
  const { client } = context;
  const rows = async (prefix: string, columns = COLUMNS.join(", ")) => {
    const text = `SELECT ${columns} FROM person_data.person WHERE service_pid LIKE '${prefix}%' ORDER BY service_pid`;
    return (await client.query<Record<string, string | null>>(text)).rows;
  };
  await commitPersons(context, [...peopleOf("old"), wholePerson("none")]);
  const before = await rows("", "service_pid, _synced_at, _record_synced_at");

  const open = (extraColumns: ExtraColumns) => {
    const warehouse = openWarehouse({ url: context.url, extraColumns });
    onTestFinished(() => warehouse.close());
    return warehouse;
  };
  const warehouse = open(EXTRA);
  await Promise.all([warehouse.migrate(), open(EXTRA).migrate()]);
  expect(await rows("old")).toEqual(expected);
  // Incremental readers see the people with a value.
  const after = await rows("", "service_pid, _synced_at, _record_synced_at");
  const unchanged = after.filter((row, i) => row["_synced_at"] === before[i]?.["_synced_at"]);
  expect(unchanged.map((row) => row["service_pid"])).toEqual(["none", "old13", "old14", "old15"]);

  await commitPersons(context, peopleOf("new"));
  expect(await rows("new")).toEqual(expected);
  const { rows: comments } = await client.query(
    "SELECT col_description('person_data.person'::regclass, attnum) AS text FROM pg_attribute WHERE attname = 'premium_count'",
  );
  expect(comments).toEqual([{ text: expect.stringMatching(/^Field `premium_count` .* pii: sensitive$/u) }]);

  // A second migration changes nothing, and another type is refused before it does.
  await warehouse.migrate();
  expect(await rows("", "service_pid, _synced_at, _record_synced_at")).toEqual(
    expect.arrayContaining([...after]),
  );
  await expect(open({ ...EXTRA, premium_count: "text", other: "text" }).migrate()).rejects.toMatchObject({
    problems: [{ path: "extra_columns.person.premium_count", message: expect.stringContaining("bigint") }],
  });
  await expect(rows("", "other")).rejects.toThrow(/"other" does not exist/u);
});

test("a column that a later version declares is replaced by the declared one", async () => {
  const { client, warehouse } = context;
  await client.query(`ALTER TABLE person_data.person DROP COLUMN estimated_income_min CASCADE,
      ADD COLUMN estimated_income_min bigint GENERATED ALWAYS AS (1) STORED;
    DELETE FROM person_data_state.schema_migration WHERE name > '0002'`);
  expect(await warehouse.migrate()).toContain("0002-derived-columns");
  const { rows } = await client.query(
    "SELECT attgenerated AS kind FROM pg_attribute WHERE attrelid = 'person_data.person'::regclass AND attname = 'estimated_income_min'",
  );
  expect(rows).toEqual([{ kind: "" }]);
});
