import { partsOf } from "./mapped-columns.ts";
import { sql } from "kysely";
import { to as copyTo } from "pg-copy-streams";
import type { Identifiers } from "../erasure/subjects.ts";
import { type ForeignDatabase, type NamingRow, type Reading, rowColumns } from "./foreign-database.ts";
import { openLocalInput } from "./foreign-input.ts";
import { checkInput, describeColumns, finderOf, raw, rawSelect, READING } from "./input.ts";
import type { PostgresTarget } from "../db/connect.ts";
import { inTransaction, openPool, type Session } from "../db/session.ts";
import { sampleInput } from "./sample-postgres.ts";
import { sentValues } from "./sent-values.ts";
import { normalizedAddress } from "../erasure/addresses.ts";
import type { InputSource } from "./input-source.ts";

/** Opens a Postgres database that inputs are read from; connects on first use. */
export function openPostgresDatabase(target: PostgresTarget): ForeignDatabase {
  const pool = openPool(target, 2);
  return {
    checkInput: (input) => checkInput(pool, input),
    describe: (input) =>
      inTransaction(pool, (session) => describeColumns(session, { ...input, where: null }), READING),
    sampleInput: (input) => sampleInput(pool, input),
    read: (input, reading: Reading, work) =>
      inTransaction(
        pool,
        async (session) => {
          const opened = await openLocalInput(session, input, reading);
          // COPY has no extended protocol: the rows must be those of one statement.
          await session.rows(raw(`EXPLAIN ${opened.rawRows}`));
          const columns = rowColumns(input, opened.parts, reading);
          const copy = (query: string) => session.client.query(copyTo(`COPY (${query}) TO STDOUT`));
          return work({
            ...opened,
            columns,
            copyText: () => copy(opened.rawRows),
          });
        },
        READING,
      ),
    findRows: (input, wanted) => inTransaction(pool, (session) => findRows(session, input, wanted), READING),
    close: () => pool.end(),
  };
}

/** Finds the rows of an input with one of these keys, addresses or PIDs; scans the input once. */
export async function findRows(
  session: Session,
  input: InputSource,
  wanted: Identifiers,
): Promise<readonly NamingRow[]> {
  const keys = wanted.rows.filter(({ source }) => source === input.name).map(({ sourceKey }) => sourceKey);
  if (keys.length + wanted.emails.length + wanted.pids.length === 0) return [];
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, "enrich", finderOf(columns));
  const rows = rawSelect(input, parts, columns, { ranked: false });
  const sent = sentValues(parts, input);
  const lists = (field: string) =>
    parts
      .filter((part) => part.field === field)
      .map((part) => (part.isArray ? part.name : `array_remove(ARRAY[${part.name}], NULL)`));
  const emails = [...lists("emails"), "'{}'::text[]"].join(" || ");
  const pids = [...lists("service_pid"), "'{}'::text[]"].join(" || ");
  return session.rows<NamingRow>(sql`
    WITH raw_row AS (${raw(rows)})
    SELECT source_key AS "sourceKey", emails, pids
    FROM (SELECT source_key, ${raw(emails)} AS emails, ${raw(pids)} AS pids
      FROM (SELECT ${raw(["source_key", ...sent.columns].join(", "))} FROM ${raw(sent.from)} OFFSET 0) AS u
      OFFSET 0) AS f
    WHERE source_key IN (SELECT unnest(${keys}::text[]))
      OR EXISTS (SELECT FROM unnest(emails) AS e(e)
        WHERE ${raw(normalizedAddress("e"))} IN (SELECT unnest(${[...wanted.emails]}::text[])))
      OR EXISTS (SELECT FROM unnest(pids) AS p(p) WHERE p IN (SELECT unnest(${[...wanted.pids]}::text[])))`);
}
