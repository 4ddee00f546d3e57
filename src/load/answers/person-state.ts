import { sql } from "kysely";
import type { LoadContext } from "./load-context.ts";
import { tableId } from "../db/names.ts";
import { type EncodedPerson, groupNames, HASH_LENGTH, UNKNOWN_HASH } from "./person-groups.ts";

/** Stored state of a person, by field group in declared order. */
export interface PersonState {
  readonly hashes: readonly string[];
  /** Number of the call that answered last; 0 for none. */
  readonly callNumbers: readonly number[];
}

/** Reads and locks the states of known persons, in the order of their PIDs. */
export async function readPersonStates(
  context: LoadContext,
  pids: readonly string[],
): Promise<ReadonlyMap<string, PersonState>> {
  const rows = await context.session.rows<{
    service_pid: string;
    group_hashes: string;
    call_number: number;
    group_call_numbers: Readonly<Record<string, number>> | null;
  }>(sql`
    SELECT service_pid, group_hashes, call_number, group_call_numbers
    FROM ${tableId(context.names, "person_state")}
    WHERE service_pid = ANY(${[...pids]}) ORDER BY service_pid COLLATE "C" FOR NO KEY UPDATE`);
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

/** Writes the states of known persons. */
export async function writePersonStates(
  context: LoadContext,
  states: readonly { readonly pid: string; readonly state: PersonState }[],
): Promise<void> {
  if (states.length === 0) return;
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
  await context.session.change(sql`
    UPDATE ${tableId(context.names, "person_state")} AS t
    SET group_hashes = s.hashes, call_number = s.call_number, group_call_numbers = s.newer, _synced_at = now(),
      _run_id = ${context.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS s(pid text, hashes text, call_number bigint, newer jsonb)
    WHERE t.service_pid = s.pid`);
}
