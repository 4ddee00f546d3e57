import { partsOf } from "../mapped-columns.ts";
import { BLANKS } from "../input-fields.ts";
import { quoteLiteral } from "../../../bigquery/names.ts";
import type { Identifiers } from "../../erasure/people.ts";
import type { NamingRow } from "../foreign-database.ts";
import type { InputSource } from "../input-source.ts";
import { describeColumns, finderOf, rawSelect } from "./input.ts";
import type { Session } from "../../../bigquery/session.ts";

/** Finds the rows of an input with one of these keys, addresses or PIDs; scans the input once. */
export async function findNamingRows(
  session: Session,
  input: InputSource,
  wanted: Identifiers,
): Promise<readonly NamingRow[]> {
  const keys = wanted.rows.filter(({ source }) => source === input.name).map(({ sourceKey }) => sourceKey);
  if (keys.length + wanted.emails.length + wanted.pids.length === 0) return [];
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, "enrich", finderOf(columns));
  const rows = rawSelect(input, parts, columns, { ranked: false });
  const texts = (field: string) =>
    parts
      .filter((part) => part.field === field)
      .map(({ name, isArray }) => (isArray ? name : `IF(${name} IS NULL, [], [${name}])`));
  const listOf = (field: string) => {
    const lists = texts(field);
    return lists.length === 0 ? "CAST([] AS ARRAY<STRING>)" : `ARRAY_CONCAT(${lists.join(", ")})`;
  };
  return session.rows<NamingRow>({
    text: `SELECT source_key AS sourceKey, emails, pids
      FROM (SELECT source_key, ${listOf("emails")} AS emails, ${listOf("service_pid")} AS pids FROM (${rows}) AS r) AS f
      WHERE source_key IN UNNEST(@keys)
        OR EXISTS (SELECT 1 FROM UNNEST(emails) AS e WHERE ${normalizedAddress("e")} IN UNNEST(@emails))
        OR EXISTS (SELECT 1 FROM UNNEST(pids) AS p WHERE p IN UNNEST(@pids))`,
    parameters: { keys, emails: wanted.emails, pids: wanted.pids },
  });
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Normalizes an address for comparison. */
function normalizedAddress(expression: string): string {
  return `TRANSLATE(TRIM(${expression}, ${quoteLiteral(BLANKS)}), '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}
