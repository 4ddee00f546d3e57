import { sql } from "kysely";
import { type ErasureKey, type Subject, subjectHash } from "../subject-hash.ts";
import type { LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "../warehouse.ts";
import type { LoadPlace } from "./load-place.ts";
import { noteSubjects } from "./note-subjects.ts";
import { addressesOf, namedBy, withoutNamed } from "./named-people.ts";
import { type SchemaNames, tableId } from "./names.ts";
import type { EncodedPerson } from "../person-groups.ts";
import type { Session } from "./session.ts";

/** What a group of calls found, without the erased. */
export interface KeptResults {
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
}

/** Leaves out of answers and rejects who was erased, and remembers what else the erased turn out to be known by. */
export async function keepOut(
  place: LoadPlace,
  key: ErasureKey,
  spec: LoadSpec,
  { answers, rejects }: KeptResults,
): Promise<KeptResults> {
  const hashes = createHashes(key);
  const seen = answers.map((answer) => ({
    answer,
    person: personOf(answer),
    subjects: subjectsOf(spec, answer).map((one) => hashes.note(one)),
  }));
  const named = new Map(
    seen.flatMap(({ person }) => (person ? namedBy(person) : [])).map((pid) => [pid, ""]),
  );
  for (const pid of named.keys()) named.set(pid, hashes.note({ kind: "pid", pid }).hash);
  const refused = rejects.map((reject) => ({
    reject,
    subjects: recordSubjects(spec, reject.record).map((one) => hashes.note(one)),
  }));
  const erased = await findErased(place.session, place.names, hashes.all());
  if (erased.size === 0) return { answers, rejects };
  const isErased = ({ hash }: Noted) => erased.has(hash);
  const discoveries = seen.flatMap(({ answer, subjects }) => {
    const hits = subjects.filter(isErased);
    const erasureId = erased.get(hits[0]?.hash ?? "");
    return erasureId === undefined
      ? []
      : found(spec, answer, hits).map((subject) => ({ subject, erasureId }));
  });
  // They are kept out from now on, and their tombstones have them removed: they may be stored already.
  const byErasure = Map.groupBy(discoveries, (one) => one.erasureId);
  for (const [erasureId, ones] of [...byErasure].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const { session, names, runId } = place;
    await noteSubjects(
      session,
      names,
      key,
      { erasureId, runId },
      ones.map(({ subject }) => subject),
    );
  }
  const erasedPids = new Set([...named].filter(([, hash]) => erased.has(hash)).map(([pid]) => pid));
  return {
    answers: seen
      .filter(({ subjects }) => !subjects.some(isErased))
      .map(({ answer, person }) =>
        person && erasedPids.size > 0 ? { ...answer, person: withoutNamed(person, erasedPids) } : answer,
      ),
    rejects: refused.filter(({ subjects }) => !subjects.some(isErased)).map(({ reject }) => reject),
  };
}

/** A subject and its hash. */
interface Noted {
  readonly subject: Subject;
  readonly hash: string;
}

function createHashes(key: ErasureKey) {
  const known = new Set<string>();
  return {
    note(subject: Subject): Noted {
      const hash = subjectHash(key, subject);
      known.add(hash);
      return { subject, hash };
    },
    all: () => [...known],
  };
}

/** Prepared persons come from this warehouse's own preparePerson. */
function personOf({ person }: LookupAnswer): EncodedPerson | null {
  return person as EncodedPerson | null;
}

const emailOf = (address: string): Subject => ({ kind: "email", address });
const pidOf = (pid: string): Subject => ({ kind: "pid", pid });

/** What a record says of the person who is asked about. */
function recordSubjects(spec: LoadSpec, record: LookupRecord): readonly Subject[] {
  if (spec.type === "validate_emails") return record.rows.map(({ sourceKey }) => emailOf(sourceKey));
  const { emails, service_pid: pid } = readRecord(record.json);
  return [
    ...rowSubjects(spec, record),
    ...emails.map(emailOf),
    ...[record.sentPid, pid].flatMap((one) => (one === null ? [] : pidOf(one))),
  ];
}

function rowSubjects(spec: LoadSpec, record: LookupRecord): readonly Subject[] {
  return record.rows.map(({ sourceKey }) => ({ kind: "source_key", source: spec.input.name, sourceKey }));
}

function readRecord(json: string): {
  readonly emails: readonly string[];
  readonly service_pid: string | null;
} {
  // The warehouse has made it from the input row.
  const record = JSON.parse(json) as { readonly emails?: readonly string[]; readonly service_pid?: string };
  return { emails: record.emails ?? [], service_pid: record.service_pid ?? null };
}

/** What a record and its answer say of the person. */
function subjectsOf(spec: LoadSpec, answer: LookupAnswer): readonly Subject[] {
  const person = personOf(answer);
  const pids = [answer.servicePid, person?.pid ?? null].flatMap((pid) => pid ?? []);
  return [
    ...recordSubjects(spec, answer.record),
    ...[...new Set(pids)].map(pidOf),
    ...(person ? addressesOf(person) : []).map(emailOf),
  ];
}

/**
 * What belongs to an erased person by such an answer: its rows, and its PID unless that is what told. Not the other
 * addresses: families share them, and from one to the next everybody would be erased.
 */
function found(spec: LoadSpec, answer: LookupAnswer, hits: readonly Noted[]): readonly Subject[] {
  if (spec.type === "validate_emails") return [];
  const isByPid = hits.some(({ subject }) => subject.kind === "pid");
  const pid = isByPid ? null : answer.servicePid;
  return [...rowSubjects(spec, answer.record), ...(pid === null ? [] : [pidOf(pid)])];
}

/** Of these hashes those of erased people, with the erasure of each. */
export async function findErased(
  session: Session,
  names: SchemaNames,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await session.rows<{ hash: string; erasure_id: string }>(sql`
    SELECT encode(subject_hash, 'hex') AS hash, erasure_id::text AS erasure_id
    FROM ${tableId(names, "ops", "erasure_subject")}
    WHERE subject_hash IN (SELECT decode(h, 'hex') FROM unnest(${[...hashes]}::text[]) AS u(h))`);
  return new Map(rows.map((row) => [row.hash, row.erasure_id]));
}

/** Of these PIDs those of erased people. */
export async function findErasedPids(
  session: Session,
  names: SchemaNames,
  key: ErasureKey,
  pids: readonly string[],
): Promise<ReadonlySet<string>> {
  const hashes = pids.map((pid) => [pid, subjectHash(key, pidOf(pid))] as const);
  const erased = await findErased(
    session,
    names,
    hashes.map(([, hash]) => hash),
  );
  return new Set(hashes.flatMap(([pid, hash]) => (erased.has(hash) ? pid : [])));
}
