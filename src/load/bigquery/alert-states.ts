import { sql } from "kysely";
import type { StateChange, SubjectState } from "../alert-warehouse.ts";
import { jsonRows } from "./json-rows.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { oneAtATime } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

const stateTable = (names: DatasetNames) => tableId(names, "ops", "alert_state");

/** Notes states; returns those that were told otherwise, as told from now on. */
export async function changeStates(
  session: Session,
  states: readonly SubjectState[],
  runId: string,
): Promise<readonly StateChange[]> {
  const table = stateTable(session.names);
  const subjects = states.map(({ subject }) => subject);
  if (await areKnown(session, states)) return [];
  const rows = jsonRows(sql`_etl_states`, { subject: "STRING", state: "STRING" });
  return session.transaction<StateChange>({
    declare: [
      sql`_etl_states STRING DEFAULT ${JSON.stringify(states)}`,
      sql`_etl_subjects ARRAY<STRING> DEFAULT ${subjects}`,
    ],
    statements: [
      oneAtATime(session.names),
      sql`UPDATE ${table} AS a SET state = n.state, changed_at = ${NOW}, _synced_at = ${NOW}, _run_id = ${runId}
        FROM (${rows}) AS n WHERE a.subject = n.subject AND a.state != n.state`,
      sql`INSERT INTO ${table} (subject, state, told_state, changed_at, _synced_at, _run_id)
        SELECT n.subject, n.state, 'ok', ${NOW}, ${NOW}, ${runId} FROM (${rows}) AS n
        WHERE n.subject NOT IN (SELECT a.subject FROM ${table} AS a)`,
      sql`CREATE TEMP TABLE state_untold AS SELECT subject, state, told_state FROM ${table}
        WHERE subject IN UNNEST(_etl_subjects) AND state != told_state`,
      sql`UPDATE ${table} SET told_state = state, told_at = ${NOW}, _synced_at = ${NOW}
        WHERE subject IN (SELECT u.subject FROM state_untold AS u)`,
    ],
    outcome: sql<StateChange>`SELECT subject, state, told_state AS before FROM state_untold ORDER BY subject`,
  });
}

/** Whether all of it is noted and told: mostly nothing has changed, and a look costs less than a transaction. */
async function areKnown(session: Session, states: readonly SubjectState[]): Promise<boolean> {
  if (states.length === 0) return true;
  const known = await session.rows<{ subject: string; state: string }>(sql`
    SELECT subject, state FROM ${stateTable(session.names)}
    WHERE state = told_state AND subject IN UNNEST(${states.map(({ subject }) => subject)})`);
  const told = new Map(known.map(({ subject, state }) => [subject, state]));
  return states.every(({ subject, state }) => told.get(subject) === state);
}

/** Takes back that changes were told, unless there was another one since. */
export async function untellStates(session: Session, changes: readonly StateChange[]): Promise<void> {
  if (changes.length === 0) return;
  const columns = { subject: "STRING", state: "STRING", before: "STRING" } as const;
  await session.change(sql`
    UPDATE ${stateTable(session.names)} AS a SET told_state = c.before, _synced_at = CURRENT_TIMESTAMP()
    FROM (${jsonRows(sql`${JSON.stringify(changes)}`, columns)}) AS c
    WHERE a.subject = c.subject AND a.told_state = c.state`);
}
