import { type RawBuilder, sql } from "kysely";
import type { LoadContext } from "./answer.ts";
import { tableId } from "../db/names.ts";
import { type EncodedPerson, groupNames, HASH_LENGTH, UNKNOWN_HASH } from "./person-groups.ts";

/** A person with the number of the call that answered. */
export interface NumberedPerson {
  readonly person: EncodedPerson;
  readonly callNumber: number;
}

/** Stored state of a person. */
export interface PersonState {
  /** By field group in declared order, {@link HASH_LENGTH} characters each. */
  readonly hashes: string;
  /** By field group: number of the call that answered last; 0 for none. */
  readonly callNumbers: readonly number[];
}

/** State of a person after the first answer. */
const stateOfNew = ({ hashes, present }: EncodedPerson, callNumber: number): PersonState => ({
  hashes,
  callNumbers: groupNames.map((_, i) => (present?.[i] === false ? 0 : callNumber)),
});

/** Persons of a group of answers, locked until the end of the transaction. The unchanged ones are in neither. */
interface ClaimedPersons {
  /** PIDs of persons whose state was inserted. */
  readonly fresh: ReadonlySet<string>;
  /** States of persons to compare. */
  readonly states: ReadonlyMap<string, PersonState>;
}

/**
 * Inserts the states of new persons, updates those of persons with an equal answer, and locks and returns the others. All in
 * one pass in the order of the PIDs: loaders of the same persons wait for each other, without deadlocks or unique violations.
 */
export async function claimPersons(
  context: LoadContext,
  persons: readonly NumberedPerson[],
): Promise<ClaimedPersons> {
  const { session, names, runId } = context;
  const states = persons.map(({ person, callNumber }) => ({
    pid: person.pid,
    state: stateOfNew(person, callNumber),
  }));
  // An update whose condition is false locks the row and doesn't write it. The new version of an updated row carries the
  // lock in xmax; an inserted row has none.
  const written = await session.rows<{ service_pid: string; is_fresh: boolean }>(sql`
    INSERT INTO ${tableId(names, "person_state")} AS t (service_pid, group_hashes, call_number, group_call_numbers)
    SELECT pid, hashes, call_number, newer FROM ${rowsOf(states)} ORDER BY pid COLLATE "C"
    ON CONFLICT (service_pid) DO UPDATE SET call_number = excluded.call_number, _synced_at = now(), _run_id = ${runId}
      WHERE t.group_hashes = excluded.group_hashes AND t.call_number <= excluded.call_number
        AND t.group_call_numbers IS NULL AND excluded.group_call_numbers IS NULL
        AND strpos(excluded.group_hashes, ${UNKNOWN_HASH}) = 0
    RETURNING service_pid, xmax = 0 AS is_fresh`);
  const settled = new Set(written.map((row) => row.service_pid));
  const others = states.map(({ pid }) => pid).filter((pid) => !settled.has(pid));
  return {
    fresh: new Set(written.filter((row) => row.is_fresh).map((row) => row.service_pid)),
    states: await readPersonStates(context, others),
  };
}

async function readPersonStates(
  { session, names }: LoadContext,
  pids: readonly string[],
): Promise<ReadonlyMap<string, PersonState>> {
  if (pids.length === 0) return new Map();
  const rows = await session.rows<{
    service_pid: string;
    group_hashes: string;
    call_number: number;
    group_call_numbers: Readonly<Record<string, number>> | null;
  }>(sql`
    SELECT service_pid, group_hashes, call_number, group_call_numbers
    FROM ${tableId(names, "person_state")} WHERE service_pid = ANY(${[...pids]})`);
  return new Map(
    rows.map((row) => [
      row.service_pid,
      {
        hashes: row.group_hashes,
        callNumbers: groupNames.map((name) => row.group_call_numbers?.[name] ?? row.call_number),
      },
    ]),
  );
}

/** The groups of a person that this answer changes, and the state afterwards. */
interface GroupDecision {
  /** True for each group to write, in declared order. */
  readonly writes: readonly boolean[];
  readonly next: PersonState;
}

const hashAt = (hashes: string, i: number) => hashes.slice(i * HASH_LENGTH, (i + 1) * HASH_LENGTH);

/** Compares an answer with the stored state. An earlier answer changes nothing; an equal one only updates the call number. */
export function decideGroups(person: EncodedPerson, callNumber: number, state: PersonState): GroupDecision {
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

/** State of one person. */
interface StateOfPerson {
  readonly pid: string;
  readonly state: PersonState;
}

/** Rows `s` with the columns of these states. */
function rowsOf(states: readonly StateOfPerson[]): RawBuilder<unknown> {
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

/** Writes the states of known persons. */
export async function writePersonStates(
  context: LoadContext,
  states: readonly StateOfPerson[],
): Promise<void> {
  if (states.length === 0) return;
  await context.session.change(sql`
    UPDATE ${tableId(context.names, "person_state")} AS t
    SET group_hashes = s.hashes, call_number = s.call_number, group_call_numbers = s.newer, _synced_at = now(),
      _run_id = ${context.runId}
    FROM ${rowsOf(states)} WHERE t.service_pid = s.pid`);
}
