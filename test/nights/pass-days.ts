import type { Client } from "pg";

const SCHEMAS = ["person_data", "person_data_ops", "person_data_state"];

/** Table that is equal in every migrated database. */
const KEPT = "warehouse_identity";

/** Column of the program's tables that holds a time or a date. */
interface TimeColumn {
  readonly table: string;
  readonly name: string;
}

/** The same in every migrated database; found once per process. */
let columns: readonly TimeColumn[] | undefined;

/** Lets days pass: moves all times and dates in the program's tables back, whichever tables there are. */
export async function passDays(client: Client, days: number): Promise<void> {
  columns ??= (
    await client.query<TimeColumn>(
      `SELECT format('%I.%I', table_schema, table_name) AS "table", quote_ident(column_name) AS name
     FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_schema = ANY($1) AND table_type = 'BASE TABLE' AND table_name <> $2
       AND data_type IN ('timestamp with time zone', 'date')`,
      [SCHEMAS, KEPT],
    )
  ).rows;
  const tables = Map.groupBy(columns, ({ table }) => table);
  const tests = [...tables.keys()].map(
    (table) => `SELECT '${table}' AS name WHERE EXISTS (SELECT FROM ${table})`,
  );
  const filled = await client.query<{ name: string }>(tests.join(" UNION ALL "));
  // In two steps, because a moved time may equal another row's that isn't moved yet.
  const moves = filled.rows.flatMap(({ name: table }) =>
    ["- interval '100000 days'", `+ interval '${100_000 - days} days'`].map((by) => {
      const sets = (tables.get(table) ?? []).map(({ name }) => `${name} = ${name} ${by}`);
      return `UPDATE ${table} SET ${sets.join(", ")}`;
    }),
  );
  await client.query(
    `BEGIN; SET LOCAL session_replication_role = replica; ${[...moves, ...moveBudgets(days)].join("; ")}; COMMIT`,
  );
}

/** Moves the days and months of budgets, which are text. */
function moveBudgets(days: number): readonly string[] {
  const day = `(to_date(period_key, 'YYYY-MM-DD') - ${days})::text`;
  // Today's records count in the month of the new day.
  const month = `to_char(to_date(period_key, 'YYYY-MM') + extract(day FROM now())::int - 1 - ${days}, 'YYYY-MM')`;
  return [
    `UPDATE person_data_state.budget_use SET period_key = '-' || CASE period WHEN 'day' THEN ${day} ELSE ${month} END
      WHERE period IN ('day', 'month')`,
    "UPDATE person_data_state.budget_use SET period_key = ltrim(period_key, '-') WHERE period IN ('day', 'month')",
  ];
}
