import type { KeyColumn, KeyType } from "../../schemas/views/link-input.ts";
import { linkColumnName } from "../../schemas/views/link-input.ts";
import type { Db } from "../db/db.ts";
import { inTransaction } from "../db/session.ts";
import { describeColumns, READING } from "./input.ts";
import type { InputColumn, InputSource } from "./input-source.ts";

/** Declared types of Postgres's and BigQuery's types, by their own names. */
const keyTypes: Readonly<Record<string, KeyType>> = {
  smallint: "integer",
  integer: "integer",
  bigint: "integer",
  INT64: "integer",
  uuid: "uuid",
  date: "date",
  DATE: "date",
  "timestamp without time zone": "timestamp",
  DATETIME: "timestamp",
  "timestamp with time zone": "timestamptz",
  TIMESTAMP: "timestamptz",
};

/** Reads the types of an input's key columns, which exist; reads no rows. */
export async function describeKey(db: Db, input: InputSource): Promise<readonly KeyColumn[]> {
  const columns = await (db.foreignOf(input)?.describe(input) ??
    inTransaction(db.pool, (session) => describeColumns(session, { ...input, where: null }), READING));
  return input.key.map((name) => ({
    name: linkColumnName(name),
    type: keyTypes[find(name, columns)?.typeName ?? ""] ?? "text",
  }));
}

function find(name: string, columns: readonly InputColumn[]): InputColumn | undefined {
  return (
    columns.find((column) => column.name === name) ??
    columns.find((column) => column.name.toLowerCase() === name.toLowerCase())
  );
}
