import { sql } from "kysely";
import { copyEncoded } from "../db/copy.ts";
import { copyList } from "../db/copy-list.ts";
import type { LoadContext } from "./answer.ts";
import { mergePersons } from "./merge-persons.ts";
import { tableText, tableId } from "../db/names.ts";
import { type EncodedPerson, isWhole, listGroups, scalarNames } from "./person-groups.ts";
import { claimPersons, type NumberedPerson } from "./person-state.ts";
import { joinRows } from "./row-store.ts";
import type { LookupAnswer } from "./answer.ts";

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
