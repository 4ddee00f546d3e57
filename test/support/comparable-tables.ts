import { Client } from "pg";

/**
 * Contents of the tables in a form that is equal for two runs over the same people: without generated IDs and
 * times (except for null), with rows identified by their subject.
 */
export type TableContents = ReadonlyMap<string, ReadonlyMap<string, string>>;

interface Column {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

/** Columns that differ between any two runs. */
const OF_THE_RUN: ReadonlySet<string> = new Set([
  "_run_id",
  "run_id",
  "api_request_id",
  "call_id",
  "call_number",
  "reject_id",
  "is_first",
]);

/** Subject of a table's rows: the first of these columns that exists. */
const SUBJECTS = ["source_key", "content", "service_pid", "email_address", "sent_service_pid"] as const;

/** Columns that keep earlier answers. */
export const MEMORY = [
  "previous_status",
  "status_changed_at",
  "first_matched_at",
  "last_matched_at",
  "last_matched_service_pid",
];

/** Ignored tables and columns. */
interface ContentsOptions {
  readonly withoutTables?: readonly string[];
  readonly withoutColumns?: readonly string[];
}

/** Compared schemas. */
const SCHEMAS = ["person_data", "person_data_state"];
/** Tables about processes, not about people. */
const OF_PROCESSES: ReadonlySet<string> = new Set([
  "schema_migration",
  "job_lock",
  "budget_use",
  "lookup_job",
  "table_load",
  "schedule_slot",
  "alert_state",
  "erasure_key",
]);

async function readColumns(client: Client): Promise<readonly Column[]> {
  const { rows } = await client.query<Column>(
    `SELECT table_schema AS schema, c.table_name AS "table", c.column_name AS name, c.data_type AS type
       FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
      WHERE table_schema = ANY($1) AND t.table_type = 'BASE TABLE' ORDER BY 1, 2, c.ordinal_position`,
    [SCHEMAS],
  );
  return rows;
}

function cellOf({ name, type }: Column): string {
  const quoted = `"${name}"`;
  if (type.startsWith("timestamp") && name !== "email_last_seen") return `(${quoted} IS NOT NULL)::text`;
  return `${quoted}::text`;
}

/** Reads every table about people and input rows of a database. */
export async function readContents(url: string, options: ContentsOptions = {}): Promise<TableContents> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await readTables(client, options);
  } finally {
    await client.end();
  }
}

async function readTables(client: Client, options: ContentsOptions): Promise<TableContents> {
  const columns = (await readColumns(client)).filter(({ table }) => !OF_PROCESSES.has(table));
  const byTable = Map.groupBy(columns, ({ table }) => table);
  const contents = new Map<string, Map<string, string>>();
  for (const [table, columns] of byTable) {
    if (options.withoutTables?.includes(table)) continue;
    const names = columns.map(({ name }) => name);
    const subject = SUBJECTS.find((name) => names.includes(name));
    const cells = columns
      .filter(({ name }) => !OF_THE_RUN.has(name) && !options.withoutColumns?.includes(name))
      .map(cellOf);
    const key = [...(names.includes("job") ? ["job"] : []), ...(subject === undefined ? [] : [subject])];
    const { rows } = await client.query<{ key: string; content: string }>(
      `SELECT concat_ws(' ', ${key.map((name) => `"${name}"::text`).join(", ") || "''"}) AS key,
              string_agg(row, E'\\n' ORDER BY row COLLATE "C") AS content
         FROM (SELECT *, jsonb_build_array(${cells.join(", ")})::text AS row FROM "${columns[0]?.schema}"."${table}") AS r GROUP BY 1`,
    );
    contents.set(table, new Map(rows.map((row) => [row.key, row.content])));
  }
  return contents;
}

/** Formats the first differences; empty for equal contents. */
export function findDifferences(expected: TableContents, actual: TableContents, most = 5): readonly string[] {
  const differences: string[] = [];
  for (const table of new Set([...expected.keys(), ...actual.keys()])) {
    const [wanted, found] = [expected.get(table), actual.get(table)];
    for (const key of new Set([...(wanted?.keys() ?? []), ...(found?.keys() ?? [])])) {
      if (differences.length >= most) return differences;
      const [a, b] = [wanted?.get(key), found?.get(key)];
      if (a !== b)
        differences.push(`${table} ${key}: ${a ?? "nothing"} was expected, ${b ?? "nothing"} is there`);
    }
  }
  return differences;
}
