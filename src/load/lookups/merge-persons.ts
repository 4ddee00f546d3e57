import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { copyEncoded } from "../db/copy.ts";
import { copyList } from "../db/copy-list.ts";
import type { LoadContext } from "./answer.ts";
import { quoteIdentifier, tableText, tableId } from "../db/names.ts";
import { type EncodedPerson, type ListGroup, listGroups, scalarNames } from "./person-groups.ts";
import { decideGroups, type PersonState, writePersonStates } from "./person-state.ts";
import { encodeRows, joinRows } from "./row-store.ts";

/** Merges answers for persons that the warehouse has: only groups whose content differs are written. */
export async function mergePersons(
  context: LoadContext,
  known: readonly {
    readonly person: EncodedPerson;
    readonly callNumber: number;
    readonly state: PersonState;
  }[],
): Promise<void> {
  if (known.length === 0) return;
  const decided = known.map(({ person, callNumber, state }) => ({
    person,
    ...decideGroups(person, callNumber, state),
  }));
  const withScalars = decided.filter(({ writes }) => writes[0]).map(({ person }) => person);
  const changed = new Set(await updateScalars(context, withScalars));
  for (const [i, group] of listGroups.entries()) {
    const persons = decided.filter(({ writes }) => writes[i + 1]).map(({ person }) => person);
    await replaceList(context, group, i + 1, persons);
    for (const person of persons) changed.add(person.pid);
  }
  if (changed.size > 0) {
    await context.session.change(sql`
      UPDATE ${tableId(context.names, "person")} SET _record_synced_at = now(), _run_id = ${context.runId}
      WHERE service_pid = ANY(${[...changed].toSorted()}) AND _record_synced_at <> now()`);
    context.touch("person", 0);
  }
  await writePersonStates(
    context,
    decided.map(({ person, next }) => ({ pid: person.pid, state: next })),
  );
}

const WHOLE_MASK = "1".repeat(scalarNames.length + 1);

/** Key of the columns in an answer: persons with equal keys are updated by one statement. */
function maskOf({ partial }: EncodedPerson): string {
  if (partial === null) return WHOLE_MASK;
  const { scalars, extra } = partial;
  return `${scalars.map((cell) => (cell === undefined ? "0" : "1")).join("")}${extra === undefined ? "0" : "1"}`;
}

/** Updates scalar columns where they differ; returns the PIDs of rows that changed. */
async function updateScalars(
  context: LoadContext,
  persons: readonly EncodedPerson[],
): Promise<readonly string[]> {
  const byMask = Map.groupBy(persons, maskOf);
  const changed: string[] = [];
  for (const [mask, group] of byMask) {
    const columns = [...scalarNames, "_extra"].filter((_, i) => mask[i] === "1");
    if (columns.length > 0) changed.push(...(await updateColumns(context, columns, mask, group)));
  }
  return changed;
}

/** Cells present in a partial answer. */
function partialRow({ pid, partial }: EncodedPerson, mask: string): Cell[] {
  const all: (Cell | undefined)[] = partial === null ? [] : [...partial.scalars, partial.extra];
  return [pid, ...all.filter((_, i) => mask[i] === "1").map((cell) => cell ?? null)];
}

/** Encoded rows of the columns in these persons' answers, which all have the same ones. */
function encodeColumns(persons: readonly EncodedPerson[], mask: string): Buffer {
  if (mask === WHOLE_MASK) return joinRows(persons, 0);
  return encodeRows(persons.map((p) => partialRow(p, mask)));
}

async function updateColumns(
  context: LoadContext,
  columns: readonly string[],
  mask: string,
  persons: readonly EncodedPerson[],
): Promise<readonly string[]> {
  const { session, names } = context;
  const person = tableId(names, "person");
  const target = tableText(names, "person");
  const list = columns.map(quoteIdentifier);
  await session.client.query(
    `CREATE TEMP TABLE stage_person ON COMMIT DROP AS SELECT service_pid, ${list.join(", ")} FROM ${target} LIMIT 0`,
  );
  const rows = encodeColumns(persons, mask);
  await copyEncoded(session, "pg_temp.stage_person", ["service_pid", ...columns], rows);
  const set = list.map((column) => `${column} = s.${column}`).join(", ");
  const row = (alias: string): RawBuilder<unknown> =>
    sql.raw(`ROW(${list.map((column) => `${alias}.${column}`).join(", ")})`);
  const updated = await session.rows<{ service_pid: string }>(sql`
    UPDATE ${person} AS t SET ${sql.raw(set)}, _record_synced_at = now(), _synced_at = now(), _run_id = ${context.runId}
    FROM pg_temp.stage_person AS s
    WHERE t.service_pid = s.service_pid AND ${row("t")} IS DISTINCT FROM ${row("s")}
    RETURNING t.service_pid`);
  await session.client.query("DROP TABLE pg_temp.stage_person");
  context.touch("person", updated.length);
  return updated.map((r) => r.service_pid);
}

/** Replaces the rows of one list for some persons, so that a shortened list leaves no orphans. */
async function replaceList(
  context: LoadContext,
  group: ListGroup,
  groupIndex: number,
  persons: readonly EncodedPerson[],
): Promise<void> {
  if (persons.length === 0) return;
  const { session, names } = context;
  const pids = persons.map((person) => person.pid);
  const only = group.discriminator
    ? sql`AND ${sql.id(group.discriminator.column)} = ${group.discriminator.value}`
    : sql``;
  const removed = await session.change(
    sql`DELETE FROM ${tableId(names, group.table)} WHERE service_pid = ANY(${pids}) ${only}`,
  );
  context.touch(group.table, removed);
  await copyList(context, group, groupIndex, persons);
}
