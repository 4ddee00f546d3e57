import { sql } from "kysely";
import type { LoadPlace } from "./load-persons.ts";
import { tableId } from "./names.ts";
import { type EncodedPerson, groupNames, HASH_LENGTH, microsOf, UNKNOWN_HASH } from "./person-groups.ts";

/** What is stored of a person, by field group in declared order. */
export interface PersonState {
  readonly hashes: readonly string[];
  /** Time of the newest applied answer, canonical text. */
  readonly answeredAt: readonly string[];
}

/** Reads and locks the states of known persons, in the order of their PIDs. */
export async function readPersonStates(
  place: LoadPlace,
  pids: readonly string[],
): Promise<ReadonlyMap<string, PersonState>> {
  const rows = await place.session.rows<{
    service_pid: string;
    group_hashes: string;
    answered_at: string;
    group_answered_at: Readonly<Record<string, string>> | null;
  }>(sql`
    SELECT service_pid, group_hashes, answered_at, group_answered_at
    FROM ${tableId(place.names, "data", "person_state")}
    WHERE service_pid = ANY(${[...pids]}) ORDER BY service_pid COLLATE "C" FOR NO KEY UPDATE`);
  return new Map(
    rows.map((row) => [
      row.service_pid,
      {
        hashes: groupNames.map((_, i) => row.group_hashes.slice(i * HASH_LENGTH, (i + 1) * HASH_LENGTH)),
        answeredAt: groupNames.map((name) => row.group_answered_at?.[name] ?? row.answered_at),
      },
    ]),
  );
}

/** The groups of a person that this answer changes, and the state afterwards. */
export interface GroupDecision {
  /** Whether each group has to be written, in declared order. */
  readonly writes: readonly boolean[];
  readonly next: PersonState;
}

/** Compares an answer with what is stored; an older answer changes nothing, an equal one only its age. */
export function decideGroups(person: EncodedPerson, state: PersonState): GroupDecision {
  const hashes = [...state.hashes];
  const answeredAt = [...state.answeredAt];
  const writes = groupNames.map((_, i) => {
    const group = person.groups[i];
    if (!group || person.answeredMicros < microsOf(state.answeredAt[i] ?? "")) return false;
    answeredAt[i] = person.answeredAt;
    if (group.hash === state.hashes[i] && group.hash !== UNKNOWN_HASH) return false;
    hashes[i] = group.hash;
    return true;
  });
  return { writes, next: { hashes, answeredAt } };
}

/** Writes the states of known persons. */
export async function writePersonStates(
  place: LoadPlace,
  states: readonly { readonly pid: string; readonly state: PersonState }[],
): Promise<void> {
  if (states.length === 0) return;
  const rows = states.map(({ pid, state }) => {
    const oldest = state.answeredAt.reduce((a, b) => (microsOf(b) < microsOf(a) ? b : a));
    const newer = groupNames.flatMap((name, i) => {
      const at = state.answeredAt[i] ?? oldest;
      return microsOf(at) > microsOf(oldest) ? [[name, at] as const] : [];
    });
    return {
      pid,
      hashes: state.hashes.join(""),
      at: oldest,
      newer: newer.length > 0 ? Object.fromEntries(newer) : null,
    };
  });
  await place.session.change(sql`
    UPDATE ${tableId(place.names, "data", "person_state")} AS t
    SET group_hashes = s.hashes, answered_at = s.at, group_answered_at = s.newer, _synced_at = now(),
      _run_id = ${place.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS s(pid text, hashes text, at timestamptz, newer jsonb)
    WHERE t.service_pid = s.pid`);
}
