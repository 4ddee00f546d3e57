import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { copyEncoded, copyList } from "../db/copy.ts";
import { quoteIdentifier, tableId, tableText } from "../db/names.ts";
import type { LoadContext, LookupAnswer } from "./answer.ts";
import { type EncodedPerson, isWhole, type ListGroup, listGroups, scalarNames } from "./person-groups.ts";
import {
  claimPersons,
  decideGroups,
  type NumberedPerson,
  type PersonState,
  writePersonStates,
} from "./person-state.ts";
import { encodeRows, joinRows } from "./row-store.ts";

/** Merges answers for persons that the warehouse has: only groups whose content differs are written. */
async function mergePersons(
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

/** Reads the numbers of calls. */
async function readCallNumbers(
  { session, names }: LoadContext,
  answers: readonly LookupAnswer[],
): Promise<ReadonlyMap<string, number>> {
  const ids = [...new Set(answers.map(({ callId }) => callId))];
  const rows = await session.rows<{ call_id: string; call_number: number }>(sql`
    SELECT call_id::text AS call_id, call_number FROM ${tableId(names, "api_call")} WHERE call_id = ANY(${ids}::uuid[])`);
  return new Map(rows.map((row) => [row.call_id, row.call_number]));
}

/**
 * Splits persons into rounds in which no PID repeats. Of two complete answers for one person only the later is kept.
 * A partial answer gets a separate round, so that absent fields keep the earlier value.
 */
function roundsOf(
  answers: readonly LookupAnswer[],
  numberOf: ReadonlyMap<string, number>,
): readonly (readonly NumberedPerson[])[] {
  const numbered = answers
    .flatMap(({ person, callId }): NumberedPerson[] =>
      // Every PreparedPerson is made by encodePerson.
      person ? [{ person: person as EncodedPerson, callNumber: numberOf.get(callId) ?? 0 }] : [],
    )
    .toSorted((a, b) => a.callNumber - b.callNumber);
  const byPid = new Map<string, NumberedPerson[]>();
  for (const one of numbered) {
    const earlier = byPid.get(one.person.pid);
    if (earlier === undefined || isWhole(one.person)) byPid.set(one.person.pid, [one]);
    else earlier.push(one);
  }
  const rounds: NumberedPerson[][] = [];
  for (const [, persons] of [...byPid].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    for (const [i, person] of persons.entries()) {
      const round = rounds[i] ?? [];
      round.push(person);
      rounds[i] = round;
    }
  }
  return rounds;
}

/** Loads the persons of a group of answers: new ones by COPY into the final tables, known ones merged. */
export async function loadPersons(context: LoadContext, answers: readonly LookupAnswer[]): Promise<void> {
  for (const round of roundsOf(answers, await readCallNumbers(context, answers))) {
    const { fresh, states } = await claimPersons(context, round);
    const known = round.flatMap((one) => {
      const state = states.get(one.person.pid);
      return state ? [{ ...one, state }] : [];
    });
    await insertPersons(
      context,
      round.map(({ person }) => person).filter(({ pid }) => fresh.has(pid)),
    );
    await mergePersons(context, known);
  }
  await recordAliases(context, answers);
}

/** COPYs new people. */
async function insertPersons(context: LoadContext, persons: readonly EncodedPerson[]): Promise<void> {
  if (persons.length === 0) return;
  const { session, names } = context;
  const columns = ["service_pid", ...scalarNames, "_extra"];
  await copyEncoded(session, tableText(names, "person"), columns, joinRows(persons, 0));
  context.touch("person", persons.length);
  for (const [i, group] of listGroups.entries()) await copyList(context, group, i + 1, persons);
}

/** Records PIDs for which the service returned another PID. */
async function recordAliases(context: LoadContext, answers: readonly LookupAnswer[]): Promise<void> {
  const pairs = new Map<string, { sent: string; returned: string; at: string }>();
  for (const { record, servicePid, answeredAt } of answers) {
    const sent = record.sentPid;
    if (sent === null || servicePid === null || sent === servicePid) continue;
    pairs.set(`${sent} ${servicePid}`, { sent, returned: servicePid, at: answeredAt });
  }
  if (pairs.size === 0) return;
  const sorted = [...pairs].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, pair]) => pair);
  const written = await context.session.change(sql`
    INSERT INTO ${tableId(context.names, "person_pid_alias")}
      (sent_service_pid, returned_service_pid, first_seen_at, _synced_at, _run_id)
    SELECT sent, returned, at, now(), ${context.runId}
    FROM json_to_recordset(${JSON.stringify(sorted)}::json) AS a(sent text, returned text, at timestamptz)
    ON CONFLICT DO NOTHING`);
  context.touch("person_pid_alias", written);
}
