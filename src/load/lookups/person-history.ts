import { type RawBuilder, sql } from "kysely";
import { NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LoadContext } from "./lookup.ts";
import { groupNames, type ListGroup, SCALARS } from "./person-groups.ts";

/** Columns that are no content: of the key, the order, and the load. */
const NO_CONTENT = ["service_pid", "position", "_record_synced_at", "_synced_at", "_run_id"];

const contentOf = (row: string, more: readonly string[] = []) =>
  sql`to_jsonb(${sql.id(row)}) - ${[...NO_CONTENT, ...more]}::text[]`;

/**
 * Inserts replaced content. Intervals follow each other even if the clock runs backwards, or one commit changes a group twice.
 * @param replaced rows `service_pid, since, content`; `since` is null for a list that was empty
 */
function insertHistory(
  { session, run }: LoadContext,
  group: string,
  replaced: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const history = session.table("person_history");
  // An empty list has no time of its own: it is as old as the person.
  const since = sql`coalesce(greatest(r.since, (SELECT max(h.valid_to) FROM ${history} AS h
      WHERE h.service_pid = r.service_pid AND h.field_group = ${group})),
    (SELECT min(h.valid_from) FROM ${history} AS h WHERE h.service_pid = r.service_pid),
    (SELECT p._synced_at FROM ${session.table("person")} AS p WHERE p.service_pid = r.service_pid), ${NOW})`;
  return sql`
    INSERT INTO ${history} (service_pid, field_group, valid_from, valid_to, content, _synced_at, _run_id)
    SELECT service_pid, ${group}, since, greatest(now(), since + interval '1 microsecond'), content, now(), ${run.runId}
    FROM (SELECT r.service_pid, ${since} AS since, r.content FROM ${replaced} AS r) AS s`;
}

/**
 * Runs an update of rows of `person` and keeps the rows that it changes.
 * @param update without RETURNING; `old` is the row before
 */
export async function updateKeeping(
  context: LoadContext,
  update: RawBuilder<unknown>,
): Promise<readonly string[]> {
  const updated = await context.session.pluck<string>(sql`
    WITH updated AS (${update} RETURNING old.service_pid, old._synced_at AS since, ${contentOf("old")} AS content),
    kept AS (${insertHistory(context, SCALARS, sql`updated`)})
    SELECT service_pid FROM updated`);
  context.touch("person_history", updated.length);
  return updated;
}

/** Condition for the rows `t` of one list. */
export function isOfList({ discriminator }: ListGroup): RawBuilder<unknown> {
  return discriminator ? sql`t.${sql.id(discriminator.column)} = ${discriminator.value}` : sql`true`;
}

/** Content of one list as rows `service_pid, since, content` of these people. @param rows of the list, with its columns and `_synced_at` */
function contents(
  { discriminator }: ListGroup,
  rows: RawBuilder<unknown>,
  pids: readonly string[],
): RawBuilder<unknown> {
  const item = contentOf("t", discriminator ? [discriminator.column] : []);
  return sql`(SELECT u.pid AS service_pid, max(t._synced_at) AS since,
      coalesce(jsonb_agg(${item} ORDER BY t.position) FILTER (WHERE t.service_pid IS NOT NULL), '[]') AS content
    FROM unnest(${[...pids]}::text[]) AS u(pid) LEFT JOIN ${rows} AS t ON t.service_pid = u.pid GROUP BY u.pid)`;
}

const columnsOf = ({ columns }: ListGroup) =>
  sql.join([...columns, "_synced_at"].map((name) => sql`t.${sql.id(name)}`));

/** Deletes the rows of one list for some people and keeps them; returns the number of deleted rows. */
export async function deleteKeeping(
  context: LoadContext,
  group: ListGroup,
  pids: readonly string[],
): Promise<number> {
  const { session, touch } = context;
  const [deleted = 0] = await session.pluck<number>(sql`
    WITH deleted AS (DELETE FROM ${session.table(group.table)} AS t
      WHERE service_pid = ANY(${[...pids]}) AND ${isOfList(group)} RETURNING ${columnsOf(group)}),
    kept AS (${insertHistory(context, group.name, contents(group, sql`deleted`, pids))})
    SELECT count(*) FROM deleted`);
  touch("person_history", pids.length);
  return deleted;
}

/** Drops what {@link deleteKeeping} has kept of people whose list is the same again: hashes also differ by declared columns, and after erasures. */
export async function dropUnchanged(
  context: LoadContext,
  group: ListGroup,
  pids: readonly string[],
): Promise<void> {
  const { session, touch } = context;
  const history = session.table("person_history");
  const isOfGroup = sql`service_pid = n.service_pid AND field_group = ${group.name}`;
  const rows = sql`(SELECT ${columnsOf(group)} FROM ${session.table(group.table)} AS t WHERE ${isOfList(group)})`;
  const dropped = await session.change(sql`
    DELETE FROM ${history} AS h USING ${contents(group, rows, pids)} AS n
    WHERE h.service_pid = n.service_pid AND h.field_group = ${group.name} AND h.content = n.content AND h._synced_at = now()
      AND h.valid_from = (SELECT max(valid_from) FROM ${history} WHERE ${isOfGroup})`);
  touch("person_history", -dropped);
}

/** People whose stored content a run replaced. */
export interface PeopleChanged {
  readonly run_id: string;
  readonly people: number;
  /** People by changed field group; groups without any are absent. */
  readonly by_field_group: Readonly<Record<string, number>>;
}

/** Counts the people that a run changed; null if none. A run that was started again counts from its last start. */
export async function readPeopleChanged(session: Session, runId: string): Promise<PeopleChanged | null> {
  const [since = null] = await session.pluck<string | null>(
    session.query
      .selectFrom("ops.sync_run")
      .select(sql<string>`min(started_at)::text`.as("since"))
      .where("run_id", "=", runId),
  );
  // The time is a parameter of its own statement, so that the plan can use the index by time.
  const groups = groupNames.map((name) => sql`bool_or(field_group = ${name}) AS ${sql.id(name)}`);
  const counts = groupNames.map((name) => sql`${name}::text, count(*) FILTER (WHERE ${sql.id(name)})`);
  const row = await session.one<Omit<PeopleChanged, "run_id">>(sql`
    SELECT count(*) AS people, jsonb_build_object(${sql.join(counts)}) AS by_field_group
    FROM (
      SELECT service_pid, ${sql.join(groups)} FROM ${session.table("person_history")}
      WHERE valid_to >= ${since}::timestamptz AND _run_id = ${runId} GROUP BY 1) AS p`);
  if (row.people === 0) return null;
  const changed = Object.entries(row.by_field_group).filter(([, people]) => people > 0);
  return { run_id: runId, people: row.people, by_field_group: Object.fromEntries(changed) };
}
