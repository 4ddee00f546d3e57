import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ColumnType } from "../../src/schemas/field.ts";
import { tables } from "../../src/schemas/registry.ts";
import type { Column, Table } from "../../src/schemas/table.ts";
import { sized } from "../support/test-size.ts";
import { runJson } from "./support/cli.ts";
import { runMeasured } from "./support/measured-cli.ts";
import { configText, createCustomers, makeSetting } from "./support/setting.ts";

/** Resident memory that no publication exceeds. */
const MOST_MEBIBYTES = 256;
const ROWS = sized(15_000, 200_000);
/** Several batches. */
const CHANGED_PEOPLE = 8_000;

/** SQL of a value in row `i`. */
const values: Readonly<Record<ColumnType, string>> = {
  text: "left(md5(i::text), 8 + i % 24)",
  integer: "i % 90",
  position: "i % 2",
  numeric: "i::numeric / 7",
  boolean: "i % 2 = 0",
  date: "DATE '1950-01-01' + i % 20000",
  timestamptz: "TIMESTAMPTZ '2026-01-01 00:00:00.123456+00' + i * interval '1 second'",
  timestamp: "TIMESTAMP '2026-01-01 00:00:00.123456' + i * interval '1 second'",
  json: "jsonb_build_object('a', md5(i::text), 'b', i)",
  uuid: "md5(i::text)::uuid",
  "text[]": "ARRAY[md5(i::text), 'b']",
  bytes: "sha256(i::text::bytea)",
};

/** SQL of a column in row `i`; a person has two rows in each list. */
function valueOf({ key, parent }: Table, { name, type }: Column): string {
  const number = name === "service_pid" && parent !== null ? "i / 2" : "i";
  return key.includes(name) && type === "text" ? `'${name[0]}-' || ${number}` : values[type];
}

function fillStatement(table: Table): string {
  const names = table.columns.map(({ name }) => `"${name}"`).join(", ");
  const row = table.columns.map((column) => valueOf(table, column)).join(", ");
  return `INSERT INTO person_data."${table.name}" (${names}) SELECT ${row} FROM generate_series(1, ${ROWS}) AS i ON CONFLICT DO NOTHING`;
}

test("a publication takes at most 256 MiB: the first one, of changes, of an erasure, and with --verify", async () => {
  const setting = await makeSetting();
  const publish = "publish:\n  local: { type: duckdb, path: copies/people.duckdb }\n";
  await writeFile(join(setting.cwd, "config.yaml"), `${configText()}${publish}`);
  await mkdir(join(setting.cwd, "copies"));
  await createCustomers(setting.url, 10);
  await runJson(["migrate"], setting);
  for (const table of tables.filter(({ schema }) => schema === "data")) {
    await setting.query(`SET session_replication_role = replica; ${fillStatement(table)}`);
  }
  const peaks: Record<string, number> = {};
  const measure = async (title: string, ...args: readonly string[]) => {
    const { code, stdout, stderr, peakMebibytes } = await runMeasured(args, setting);
    if (code !== 0) throw new Error(`${title}: ${stdout}${stderr}`);
    peaks[title] = Math.round(peakMebibytes);
  };
  await measure("first", "publish");
  await setting.query(
    `UPDATE person_data.person SET full_name = 'x', _synced_at = now() WHERE hashtext(service_pid) % ${ROWS / CHANGED_PEOPLE} = 0`,
  );
  await measure("changes", "publish");
  await measure("erasure", "erase", "--pid", "s-1", "--pid", "s-2", "--yes");
  await measure("verification", "publish", "--verify");
  const tooLarge = Object.entries(peaks).filter(([, peak]) => peak > MOST_MEBIBYTES || peak < 50);
  expect({ tooLarge, peaks }).toEqual({ tooLarge: [], peaks });
});
