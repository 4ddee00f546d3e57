import { sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { LookupAnswer } from "../lookup.ts";
import { copyEncoded, copyRows } from "../db/copy.ts";
import { copyList } from "../db/copy-list.ts";
import type { LoadPlace } from "./load-place.ts";
import { mergePersons } from "./merge-persons.ts";
import { tableText, tableId } from "../db/names.ts";
import { type EncodedPerson, groupNames, listGroups, scalarNames, UNKNOWN_HASH } from "./person-groups.ts";
import { type PersonState, readPersonStates } from "./person-state.ts";
import { createRowStore, joinRows } from "./row-store.ts";

/**
 * Rounds of persons without a PID twice. Of two whole answers for one person only the later is kept; a partial one
 * follows in a round of its own, so that what it doesn't speak of keeps the earlier answer's value.
 */
function roundsOf(answers: readonly LookupAnswer[]): readonly (readonly EncodedPerson[])[] {
  const encoded = answers
    // Prepared persons come from this warehouse's own preparePerson, which is encodePerson.
    .flatMap((answer) => (answer.person ? [answer.person as EncodedPerson] : []))
    .toSorted((a, b) => a.answeredMicros - b.answeredMicros);
  const byPid = new Map<string, EncodedPerson[]>();
  for (const person of encoded) {
    const earlier = byPid.get(person.pid);
    if (earlier === undefined || person.isWhole) byPid.set(person.pid, [person]);
    else earlier.push(person);
  }
  const rounds: EncodedPerson[][] = [];
  for (const [, persons] of [...byPid].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    for (const [i, person] of persons.entries()) {
      const round = rounds[i] ?? [];
      round.push(person);
      rounds[i] = round;
    }
  }
  return rounds;
}

/** Loads the persons of a group of answers: new ones by COPY straight into the tables, known ones merged. */
export async function loadPersons(place: LoadPlace, answers: readonly LookupAnswer[]): Promise<void> {
  for (const round of roundsOf(answers)) {
    const states = await readPersonStates(
      place,
      round.map((person) => person.pid),
    );
    const fresh: EncodedPerson[] = [];
    const known: { person: EncodedPerson; state: PersonState }[] = [];
    for (const person of round) {
      const state = states.get(person.pid);
      if (state) known.push({ person, state });
      else fresh.push(person);
    }
    await insertPersons(place, fresh);
    await mergePersons(place, known);
  }
  await noteAliases(place, answers);
}

/** `answered_at` and `group_answered_at` of a new person; of a group that the answer doesn't speak of, any is newer. */
function agesOf(person: EncodedPerson): Cell[] {
  if (person.groups.every((group) => group !== undefined)) return [person.answeredAt, null];
  const spokenOf = groupNames.filter((_, i) => person.groups[i] !== undefined);
  const ages = Object.fromEntries(spokenOf.map((name) => [name, person.answeredMicros]));
  return ["1970-01-01T00:00:00+00:00", JSON.stringify(ages)];
}

/** COPYs people that the warehouse doesn't have yet; sorted by PID, `person` first (parallel loaders meet there). */
async function insertPersons(place: LoadPlace, persons: readonly EncodedPerson[]): Promise<void> {
  if (persons.length === 0) return;
  const { session, names } = place;
  const target = (table: string) => tableText(names, table);
  const blank = createRowStore();
  const noScalars = [...scalarNames, "_extra"].map(() => null);
  const scalars = joinRows(persons.map((p) => p.groups[0]?.rows ?? blank([[p.pid, ...noScalars]])));
  await copyEncoded(session, target("person"), ["service_pid", ...scalarNames, "_extra"], scalars);
  place.touch("person", persons.length);
  await copyRows(
    session,
    target("person_state"),
    ["service_pid", "group_hashes", "answered_at", "group_answered_at"],
    persons.map((p) => [
      p.pid,
      groupNames.map((_, i) => p.groups[i]?.hash ?? UNKNOWN_HASH).join(""),
      ...agesOf(p),
    ]),
  );
  for (const [i, group] of listGroups.entries()) {
    await copyList(
      place,
      group,
      persons.flatMap((p) => p.groups[i + 1] ?? []),
    );
  }
}

/** Keeps which PID came back for a PID that was sent. */
async function noteAliases(place: LoadPlace, answers: readonly LookupAnswer[]): Promise<void> {
  const pairs = new Map<string, { sent: string; returned: string; at: string }>();
  for (const { record, servicePid, answeredAt } of answers) {
    const sent = record.sentPid;
    if (sent === null || servicePid === null || sent === servicePid) continue;
    pairs.set(`${sent} ${servicePid}`, { sent, returned: servicePid, at: answeredAt });
  }
  if (pairs.size === 0) return;
  const sorted = [...pairs].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, pair]) => pair);
  const written = await place.session.change(sql`
    INSERT INTO ${tableId(place.names, "person_pid_alias")}
      (sent_service_pid, returned_service_pid, first_seen_at, _synced_at, _run_id)
    SELECT sent, returned, at, now(), ${place.runId}
    FROM json_to_recordset(${JSON.stringify(sorted)}::json) AS a(sent text, returned text, at timestamptz)
    ON CONFLICT DO NOTHING`);
  place.touch("person_pid_alias", written);
}
