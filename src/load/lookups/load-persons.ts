import { type RawBuilder, sql } from "kysely";
import { copyEncoded, copyList } from "../db/copy.ts";
import { quoteIdentifier, tableText } from "../db/names.ts";
import type { LoadContext, LookupAnswer } from "./lookup.ts";
import { deleteKeeping, dropUnchanged, isOfList, updateKeeping } from "./person-history.ts";
import {
  type EncodedPerson,
  groupNames,
  HASH_LENGTH,
  isWhole,
  joinRows,
  type ListGroup,
  listGroups,
  PERSON_COLUMNS,
  UNKNOWN_HASH,
} from "./person-groups.ts";

interface PersonState {
  /** By field group in declared order, {@link HASH_LENGTH} characters each. */
  readonly hashes: string;
  /** By field group: number of the call that answered last; 0 for none. */
  readonly callNumbers: readonly number[];
}

/**
 * Inserts the states of new persons (`fresh`), updates those of persons with an equal answer, and locks the others and returns their
 * states. All in one pass in the order of the PIDs: loaders of the same persons wait for each other, without deadlocks or unique violations.
 */
async function claimPersons(context: LoadContext, persons: readonly EncodedPerson[], callNumber: number) {
  const { session, run } = context;
  const states = persons.map(({ pid, hashes, present }) => ({
    pid,
    state: { hashes, callNumbers: groupNames.map((_, i) => (present?.[i] === false ? 0 : callNumber)) },
  }));
  // An update whose condition is false locks the row and doesn't write it. The new version of an updated row carries the
  // lock in xmax; an inserted row has none.
  const written = await session.rows<{ service_pid: string; is_fresh: boolean }>(sql`
    INSERT INTO ${session.table("person_state")} AS t (service_pid, group_hashes, call_number, group_call_numbers)
    SELECT pid, hashes, call_number, newer FROM ${rowsOf(states)} ORDER BY pid COLLATE "C"
    ON CONFLICT (service_pid) DO UPDATE SET call_number = excluded.call_number, _synced_at = now(), _run_id = ${run.runId}
      WHERE t.group_hashes = excluded.group_hashes AND t.call_number <= excluded.call_number
        AND t.group_call_numbers IS NULL AND excluded.group_call_numbers IS NULL
        AND strpos(excluded.group_hashes, ${UNKNOWN_HASH}) = 0
    RETURNING service_pid, xmax = 0 AS is_fresh`);
  const done = new Set(written.map((row) => row.service_pid));
  const others = states.map(({ pid }) => pid).filter((pid) => !done.has(pid));
  return {
    fresh: new Set(written.filter((row) => row.is_fresh).map((row) => row.service_pid)),
    states: await readPersonStates(context, others),
  };
}

async function readPersonStates(
  { session }: LoadContext,
  pids: readonly string[],
): Promise<ReadonlyMap<string, PersonState>> {
  if (pids.length === 0) return new Map();
  const rows = await session.rows(
    session.query
      .selectFrom("state.person_state")
      .select(["service_pid as pid", "group_hashes as hashes", "call_number"])
      .select(sql<Readonly<Record<string, number>> | null>`group_call_numbers`.as("newer"))
      .where(sql<boolean>`service_pid = ANY(${[...pids]})`),
  );
  return new Map(
    rows.map(({ pid, hashes, call_number: number, newer }) => [
      pid,
      { hashes, callNumbers: groupNames.map((name) => newer?.[name] ?? number) },
    ]),
  );
}

const hashAt = (hashes: string, i: number) => hashes.slice(i * HASH_LENGTH, (i + 1) * HASH_LENGTH);

/**
 * Compares an answer with the stored state: the groups to write, in declared order, and the state afterwards. An earlier answer changes
 * nothing; an equal one only updates the call number.
 */
function decideGroups(person: EncodedPerson, state: PersonState, callNumber: number) {
  const hashes: string[] = [];
  const callNumbers = [...state.callNumbers];
  const writes = groupNames.map((_, i) => {
    const [answered, stored] = [hashAt(person.hashes, i), hashAt(state.hashes, i)];
    hashes.push(stored);
    if (person.present?.[i] === false || callNumber < (state.callNumbers[i] ?? 0)) return false;
    callNumbers[i] = callNumber;
    if (answered === stored && answered !== UNKNOWN_HASH) return false;
    hashes[i] = answered;
    return true;
  });
  return { writes, next: { hashes: hashes.join(""), callNumbers } };
}

/** Rows `s` with the columns of these states. */
function rowsOf(
  states: readonly { readonly pid: string; readonly state: PersonState }[],
): RawBuilder<unknown> {
  const rows = states.map(({ pid, state }) => {
    const oldest = Math.min(...state.callNumbers);
    const numbers = groupNames.map((name, i) => [name, state.callNumbers[i] ?? oldest] as const);
    const newer = numbers.filter(([, callNumber]) => callNumber > oldest);
    return {
      pid,
      hashes: state.hashes,
      call_number: oldest,
      newer: newer.length > 0 ? Object.fromEntries(newer) : null,
    };
  });
  return sql`json_to_recordset(${JSON.stringify(rows)}::json) AS s(pid text, hashes text, call_number bigint, newer jsonb)`;
}

/** Merges answers for persons that the warehouse has: only groups whose content differs are written. */
async function mergePersons(
  context: LoadContext,
  persons: readonly EncodedPerson[],
  stored: ReadonlyMap<string, PersonState>,
  callNumber: number,
): Promise<void> {
  const decided = persons.flatMap((person) => {
    const state = stored.get(person.pid);
    return state ? [{ person, ...decideGroups(person, state, callNumber) }] : [];
  });
  if (decided.length === 0) return;
  const withScalars = decided.filter(({ writes }) => writes[0]).map(({ person }) => person);
  const changed = new Set(await updateScalars(context, withScalars));
  for (const [i, group] of listGroups.entries()) {
    const persons = decided.filter(({ writes }) => writes[i + 1]).map(({ person }) => person);
    await replaceList(context, group, i + 1, persons);
    for (const person of persons) changed.add(person.pid);
  }
  if (changed.size > 0) {
    await context.session.change(sql`
      UPDATE ${context.session.table("person")} SET _record_synced_at = now(), _run_id = ${context.run.runId}
      WHERE service_pid = ANY(${[...changed].toSorted()}) AND _record_synced_at <> now()`);
    context.touch("person", 0);
  }
  const states = decided.map(({ person, next }) => ({ pid: person.pid, state: next }));
  await context.session.change(sql`
    UPDATE ${context.session.table("person_state")} AS t
    SET group_hashes = s.hashes, call_number = s.call_number, group_call_numbers = s.newer, _synced_at = now(),
      _run_id = ${context.run.runId}
    FROM ${rowsOf(states)} WHERE t.service_pid = s.pid`);
}

/** Updates scalar columns where they differ, one statement for all persons with the same ones; returns the PIDs of rows that changed. */
async function updateScalars(
  context: LoadContext,
  persons: readonly EncodedPerson[],
): Promise<readonly string[]> {
  const { session, run, touch } = context;
  const changed: string[] = [];
  for (const group of Map.groupBy(persons, ({ columns }) => String(columns)).values()) {
    const present = PERSON_COLUMNS.slice(1).filter((_, i) => group[0]?.columns?.[i] !== false);
    const list = present.map(quoteIdentifier);
    await session.change(
      sql`CREATE TEMP TABLE stage_person ON COMMIT DROP AS SELECT ${sql.join(PERSON_COLUMNS.map((name) => sql.id(name)))}
        FROM ${session.table("person")} LIMIT 0`,
    );
    await copyEncoded(session, "pg_temp.stage_person", PERSON_COLUMNS, joinRows(group, 0));
    const row = (alias: string) => sql.raw(`ROW(${list.map((column) => `${alias}.${column}`).join(", ")})`);
    const update = sql`
      UPDATE ${session.table("person")} AS t SET ${sql.raw(list.map((column) => `${column} = s.${column}`).join(", "))},
        _record_synced_at = now(), _synced_at = now(), _run_id = ${run.runId}
      FROM pg_temp.stage_person AS s JOIN ${session.table("person")} AS old ON old.service_pid = s.service_pid
      WHERE t.service_pid = s.service_pid AND ${row("old")} IS DISTINCT FROM ${row("s")}`;
    const updated = context.keepsPeople
      ? await updateKeeping(context, update)
      : await session.pluck<string>(sql`${update} RETURNING t.service_pid`);
    await session.client.query("DROP TABLE pg_temp.stage_person");
    touch("person", updated.length);
    changed.push(...updated);
  }
  return changed;
}

/** Replaces the rows of one list for some persons, so that a shortened list leaves no orphans. */
async function replaceList(
  context: LoadContext,
  group: ListGroup,
  groupIndex: number,
  persons: readonly EncodedPerson[],
): Promise<void> {
  if (persons.length === 0) return;
  const { session, keepsPeople } = context;
  const pids = persons.map((person) => person.pid);
  const removed = keepsPeople
    ? await deleteKeeping(context, group, pids)
    : await session.change(
        sql`DELETE FROM ${session.table(group.table)} AS t WHERE service_pid = ANY(${pids}) AND ${isOfList(group)}`,
      );
  context.touch(group.table, removed);
  await copyList(context, group, groupIndex, persons);
  if (keepsPeople) await dropUnchanged(context, group, pids);
}

/**
 * Splits persons into rounds in which no PID repeats. Of two complete answers for one person only the later is kept.
 * A partial answer gets a separate round, so that absent fields keep the earlier value.
 */
function roundsOf(answers: readonly LookupAnswer[]): readonly (readonly EncodedPerson[])[] {
  const byPid = new Map<string, EncodedPerson[]>();
  for (const person of answers.flatMap((answer) => answer.person ?? [])) {
    const earlier = byPid.get(person.pid);
    if (earlier === undefined || isWhole(person)) byPid.set(person.pid, [person]);
    else earlier.push(person);
  }
  const rounds: EncodedPerson[][] = [];
  for (const [, persons] of [...byPid].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    for (const [i, person] of persons.entries()) (rounds[i] ??= []).push(person);
  }
  return rounds;
}

/** Loads the persons of a call's answers: new ones by COPY into the final tables, known ones merged. */
export async function loadPersons(context: LoadContext, answers: readonly LookupAnswer[]): Promise<void> {
  const [one] = answers;
  if (one === undefined) return;
  const calls = context.session.query.selectFrom("ops.api_call").select("call_number");
  // A call missing from the ledger counts as earlier than all others.
  const [callNumber = 0] = await context.session.pluck<number>(calls.where("call_id", "=", one.callId));
  for (const round of roundsOf(answers)) {
    const { fresh, states } = await claimPersons(context, round, callNumber);
    await insertPersons(
      context,
      round.filter(({ pid }) => fresh.has(pid)),
    );
    await mergePersons(context, round, states, callNumber);
  }
  await recordAliases(context, answers);
}

async function insertPersons(context: LoadContext, persons: readonly EncodedPerson[]): Promise<void> {
  if (persons.length === 0) return;
  const { session } = context;
  await copyEncoded(session, tableText(session.names, "person"), PERSON_COLUMNS, joinRows(persons, 0));
  context.touch("person", persons.length);
  for (const [i, group] of listGroups.entries()) await copyList(context, group, i + 1, persons);
}

/** Records PIDs for which the service returned another PID. */
async function recordAliases(context: LoadContext, answers: readonly LookupAnswer[]): Promise<void> {
  const pairs = new Map<string, { sent: string; returned: string; at: string }>();
  for (const { record, servicePid, completedAt } of answers) {
    const sent = record.sentPid;
    if (sent === null || servicePid === null || sent === servicePid) continue;
    pairs.set(`${sent} ${servicePid}`, { sent, returned: servicePid, at: completedAt });
  }
  if (pairs.size === 0) return;
  const sorted = [...pairs].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, pair]) => pair);
  const written = await context.session.change(sql`
    INSERT INTO ${context.session.table("person_pid_alias")}
      (sent_service_pid, returned_service_pid, first_seen_at, _synced_at, _run_id)
    SELECT sent, returned, at, now(), ${context.run.runId}
    FROM json_to_recordset(${JSON.stringify(sorted)}::json) AS a(sent text, returned text, at timestamptz)
    ON CONFLICT DO NOTHING`);
  context.touch("person_pid_alias", written);
}
