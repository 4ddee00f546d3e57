import { type RawBuilder, sql } from "kysely";
import { BLANKS } from "../inputs/input-fields.ts";
import { type ErasureKey, sourceKeyPrefix } from "./subject-hash.ts";
import {
  type EpochRow,
  keyOfEpoch,
  noSuppression,
  type ReadErasureSecret,
  type Suppression,
} from "./suppression.ts";
import { quoteLiteral, type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Reads the erasure epoch and the key. */
export async function readSuppression(
  session: Session,
  names: SchemaNames,
  readSecret: ReadErasureSecret,
): Promise<Suppression> {
  const [row] = await session.rows<EpochRow>(
    sql`SELECT epoch, key_id, made_key FROM ${tableId(names, "erasure_key")}`,
  );
  return row ? { epoch: row.epoch, key: await keyOfEpoch(row, readSecret) } : noSuppression;
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Normalizes an address in SQL, like `normalizedEmail`. */
export function normalizedAddress(expression: string): string {
  const trimmed = `btrim(${expression}, ${quoteLiteral(BLANKS)})`;
  return `translate(${trimmed}, '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}

/** Condition for a JSON column with a string, at any depth, that is a PID or an address as tested. */
export function mentionsAny(column: string, is: Pick<SuppressedSql, "pid" | "email">): RawBuilder<unknown> {
  const value = "(v.value #>> '{}')";
  return sql`EXISTS (
    SELECT FROM jsonb_path_query(${sql.raw(column)}::jsonb,
      'strict $.** ? (@.type() == "string" && (@ starts with "p-" || @ like_regex "@"))') AS v(value)
    WHERE ${is.pid(value)} OR ${is.email(value)})`;
}

/** SQL conditions for identifiers of erased people; false for null. */
export interface SuppressedSql {
  pid(expression: string): RawBuilder<unknown>;
  email(expression: string): RawBuilder<unknown>;
  sourceKey(source: string, expression: string): RawBuilder<unknown>;
  /** Condition for rows whose source is a column. */
  anySourceKey(source: string, expression: string): RawBuilder<unknown>;
}

/** Computes the same hashes as `subjectHash` with sha256, which every Postgres has. */
export function suppressedSql(names: SchemaNames, key: ErasureKey): SuppressedSql {
  const isKnown = (text: string) => sql`coalesce(
    sha256(${key.outer}::bytea || sha256(${key.inner}::bytea || convert_to(${sql.raw(text)}, 'UTF8')))
      IN (SELECT subject_hash FROM ${tableId(names, "erasure_subject")}), false)`;
  return {
    pid: (expression) => isKnown(`'pid:' || ${expression}`),
    email: (expression) => isKnown(`'email:' || ${normalizedAddress(expression)}`),
    anySourceKey: (source, expression) =>
      isKnown(`'source_key:' || octet_length(${source}) || ':' || ${source} || ':' || ${expression}`),
    sourceKey: (source, expression) => isKnown(`${quoteLiteral(sourceKeyPrefix(source))} || ${expression}`),
  };
}
