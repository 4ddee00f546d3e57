import { type RawBuilder, sql } from "kysely";
import type { Session } from "../db/session.ts";

/** Keeps the planner from merging a subquery. OFFSET 0, an integer to convert, would also keep it from a parallel plan. */
export const FENCE = "OFFSET '0'";

/** Root or node of a plan whose subplan runs in parallel. */
const PARALLEL = /^\s*(?:->\s+)?Gather(?: Merge)? {2}\(cost=/u;

/**
 * Creates a temporary table with the result of a query that reads the input, and so contains SQL of the configuration. Postgres
 * refuses writes in a parallel plan; any other plan runs read-only.
 */
export async function createFromInput(
  session: Session,
  table: string,
  query: RawBuilder<unknown>,
): Promise<void> {
  const create = sql`CREATE TEMP TABLE ${sql.id(table)} ON COMMIT DROP AS ${query}`;
  const plan = await session.readOnly(() =>
    session.rows(sql<{ readonly "QUERY PLAN": string }>`EXPLAIN ${query}`),
  );
  if (plan.some((line) => PARALLEL.test(line["QUERY PLAN"]))) {
    await session.change(create);
  } else {
    await session.change(sql`${create} WITH NO DATA`);
    await session.readOnly(() => session.change(sql`INSERT INTO pg_temp.${sql.id(table)} ${query}`));
  }
  // The planner needs the number of rows; without it, later statements take minutes. A larger sample takes longer than it saves.
  await session.client.query(`SET LOCAL default_statistics_target = 10; ANALYZE pg_temp.${table}`);
}
