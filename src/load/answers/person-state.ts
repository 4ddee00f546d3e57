import { type RawBuilder, sql } from "kysely";
import type { LoadContext } from "./load-context.ts";
import { tableId } from "../db/names.ts";
import { type EncodedPerson, groupNames, HASH_LENGTH, UNKNOWN_HASH } from "./person-groups.ts";

/** A person with the number of the call that answered. */
export interface NumberedPerson {
  readonly person: EncodedPerson;
  readonly callNumber: number;
}

/** Stored state of a person, by field group in declared order. */
export interface PersonState {
  readonly hashes: readonly string[];
  /** Number of the call that answered last; 0 for none. */
  readonly callNumbers: readonly number[];
}

/** State of a person without an answer. */
const NO_STATE: PersonState = {
  hashes: groupNames.map(() => UNKNOWN_HASH),
  callNumbers: groupNames.map(() => 0),
};

/**
 * Inserts the states of new persons and returns those of known ones, which it locks. Both happen in one pass in the order
 * of the PIDs: loaders of the same persons wait for each other, without deadlocks or unique violations, and one inserts.
 */
export async function claimPersons(
  context: LoadContext,
  persons: readonly NumberedPerson[],
): Promise<ReadonlyMap<string, PersonState>> {
  const { session, names } = context;
  const states = persons.map(({ person, callNumber }) => ({
    pid: person.pid,
    state: decideGroups(person, callNumber, NO_STATE).next,
  }));
  // An update whose condition is false locks the row and doesn't write it.
  const inserted = await session.rows<{ service_pid: string }>(sql`
    INSERT INTO ${tableId(names, "person_state")} AS t (service_pid, group_hashes, call_number, group_call_numbers)
    SELECT pid, hashes, call_number, newer FROM ${rowsOf(states)} ORDER BY pid COLLATE "C"
    ON CONFLICT (service_pid) DO UPDATE SET group_hashes = t.group_hashes WHERE false
    RETURNING service_pid`);
  const fresh = new Set(inserted.map((row) => row.service_pid));
  return readPersonStates(
    context,
    states.map(({ pid }) => pid).filter((pid) => !fresh.has(pid)),
  );
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
        hashes: groupNames.map((_, i) => row.group_hashes.slice(i * HASH_LENGTH, (i + 1) * HASH_LENGTH)),
        callNumbers: groupNames.map((name) => row.group_call_numbers?.[name] ?? row.call_number),
      },
    ]),
  );
}

/** The groups of a person that this answer changes, and the state afterwards. */
export interface GroupDecision {
  /** True for each group to write, in declared order. */
  readonly writes: readonly boolean[];
  readonly next: PersonState;
}

/** Compares an answer with the stored state. An earlier answer changes nothing; an equal one only updates the call number. */
export function decideGroups(person: EncodedPerson, callNumber: number, state: PersonState): GroupDecision {
  const hashes = [...state.hashes];
  const callNumbers = [...state.callNumbers];
  const writes = groupNames.map((_, i) => {
    const group = person.groups[i];
    if (!group || callNumber < (state.callNumbers[i] ?? 0)) return false;
    callNumbers[i] = callNumber;
    if (group.hash === state.hashes[i] && group.hash !== UNKNOWN_HASH) return false;
    hashes[i] = group.hash;
    return true;
  });
  return { writes, next: { hashes, callNumbers } };
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
    const newer = groupNames.flatMap((name, i) => {
      const callNumber = state.callNumbers[i] ?? oldest;
      return callNumber > oldest ? [[name, callNumber] as const] : [];
    });
    return {
      pid,
      hashes: state.hashes.join(""),
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
