import { sql } from "kysely";
import { type ErasureKey, type Subject, subjectHash } from "../subject-hash.ts";
import type { LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "../warehouse.ts";
import type { LoadPlace } from "./load-place.ts";
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
  await remember(
    place,
    seen.flatMap(({ answer, subjects }) => {
      const hits = subjects.filter(isErased);
      const erasureId = erased.get(hits[0]?.hash ?? "");
      return erasureId === undefined
        ? []
        : found(spec, answer, hits).map((s) => ({ ...hashes.note(s), erasureId }));
    }),
  );
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

/** Keeps out what was found to belong to the erased, and leaves a tombstone for it: it may be stored already. */
async function remember(
  place: LoadPlace,
  subjects: readonly (Noted & { readonly erasureId: string })[],
): Promise<void> {
  const rows = [...new Map(subjects.map((one) => [one.hash, one])).values()]
    .toSorted((a, b) => (a.hash < b.hash ? -1 : 1))
    .map(({ subject, hash, erasureId }) => ({
      erasure_id: erasureId,
      kind: subject.kind,
      hash,
      pid: subject.kind === "pid" ? subject.pid : null,
      source: subject.kind === "source_key" ? subject.source : null,
      source_key: subject.kind === "source_key" ? subject.sourceKey : null,
    }));
  if (rows.length === 0) return;
  const given = sql`json_to_recordset(${JSON.stringify(rows)}::json)
    AS g(erasure_id uuid, kind text, hash text, pid text, source text, source_key text)`;
  await place.session.change(sql`
    WITH noted AS (
      INSERT INTO ${tableId(place.names, "ops", "erasure_subject")}
        (erasure_id, kind, subject_hash, requested_at, rows_removed, _synced_at, _run_id)
      SELECT g.erasure_id, g.kind, decode(g.hash, 'hex'), now(), 0, now(), ${place.runId} FROM ${given}
      ORDER BY g.hash ON CONFLICT DO NOTHING RETURNING erasure_id, subject_hash)
    INSERT INTO ${tableId(place.names, "data", "tombstone")}
      (tombstone_id, service_pid, source, source_key, erased_at, email_address, erasure_id, removed_at, _synced_at, _run_id)
    SELECT gen_random_uuid(), g.pid, g.source, g.source_key, now(), NULL, g.erasure_id, NULL, now(), ${place.runId}
    FROM ${given} JOIN noted AS n ON n.erasure_id = g.erasure_id AND n.subject_hash = decode(g.hash, 'hex')`);
}
