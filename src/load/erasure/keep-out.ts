import { type ErasureKey, type Subject, subjectHash } from "./subject-hash.ts";
import type { LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "../lookup.ts";

/** What an answer's person says of people. */
export interface PersonSays {
  readonly pid: string;
  readonly addresses: readonly string[];
  /** PIDs of others. */
  readonly named: readonly string[];
}

/** What an answer or a reject says of people. */
export interface Told {
  /** What the person who was asked about is known by: any of it that was erased keeps all of it out. */
  readonly subjects: readonly Subject[];
  /** The PID that was answered; null where none was. */
  readonly pid: string | null;
  /** PIDs of others, whose names are left out where they were erased. */
  readonly named: readonly string[];
  /** An answer tells more of an erased person; a reject tells nothing. */
  readonly isAnswer: boolean;
}

/** What belongs to an erased person, too, by an answer: it was not known when the person was erased. */
export interface Learnt {
  readonly subject: Subject;
  readonly erasureId: string;
}

/** What becomes of some answers and rejects. */
export interface Verdict {
  /** By their order. */
  readonly isOut: readonly boolean[];
  /** Of those that are {@link Told.named}. */
  readonly erasedPids: ReadonlySet<string>;
  /** The same may be there more than once. */
  readonly learnt: readonly Learnt[];
}

/** Of these hashes those of erased people, with the erasure of each. */
export type FindErased = (hashes: readonly string[]) => Promise<ReadonlyMap<string, string>>;

const emailOf = (address: string): Subject => ({ kind: "email", address });
const pidOf = (pid: string): Subject => ({ kind: "pid", pid });

/** What an answer says. @param person null where the answer has none. */
export function toldByAnswer(
  spec: LoadSpec,
  answer: LookupAnswer,
  person: PersonSays | null,
  sourceKeys: readonly string[],
): Told {
  const pids = [answer.servicePid, person?.pid ?? null].flatMap((pid) => pid ?? []);
  return {
    subjects: [
      ...recordSubjects(spec, answer.record, sourceKeys),
      ...[...new Set(pids)].map(pidOf),
      ...(person?.addresses ?? []).map(emailOf),
    ],
    pid: answer.servicePid,
    named: person?.named ?? [],
    isAnswer: true,
  };
}

/** What a reject says. */
export function toldByReject(spec: LoadSpec, { record }: LookupReject, sourceKeys: readonly string[]): Told {
  return { subjects: recordSubjects(spec, record, sourceKeys), pid: null, named: [], isAnswer: false };
}

/** Subjects that a record names. @param sourceKeys input rows behind the record */
function recordSubjects(
  spec: LoadSpec,
  record: LookupRecord,
  sourceKeys: readonly string[],
): readonly Subject[] {
  if (spec.type === "validate_emails") return [emailOf(record.address ?? "")];
  const { emails, service_pid: pid } = readRecord(record.json);
  return [
    ...sourceKeys.map((sourceKey): Subject => ({ kind: "source_key", source: spec.input.name, sourceKey })),
    ...emails.map(emailOf),
    ...[record.sentPid, pid].flatMap((one) => (one === null ? [] : pidOf(one))),
  ];
}

function readRecord(json: string): {
  readonly emails: readonly string[];
  readonly service_pid: string | null;
} {
  // The warehouse has made it from the input row.
  const record = JSON.parse(json) as { readonly emails?: readonly string[]; readonly service_pid?: string };
  return { emails: record.emails ?? [], service_pid: record.service_pid ?? null };
}

/** Finds out who was erased, and what else the erased turn out to be known by. */
export async function judge(
  key: ErasureKey,
  told: readonly Told[],
  findErased: FindErased,
): Promise<Verdict> {
  const note = (subject: Subject) => ({ subject, hash: subjectHash(key, subject) });
  const seen = told.map((one) => ({ told: one, subjects: one.subjects.map(note) }));
  const named = new Map(
    [...new Set(told.flatMap((one) => one.named))].map((pid) => [pid, note(pidOf(pid)).hash]),
  );
  const hashes = seen.flatMap(({ subjects }) => subjects.map(({ hash }) => hash));
  const erased = await findErased([...new Set([...hashes, ...named.values()])]);
  const hitsOf = (subjects: readonly Noted[]) => subjects.filter(({ hash }) => erased.has(hash));
  const learnt = seen.flatMap((one) => {
    const hits = hitsOf(one.subjects);
    const erasureId = erased.get(hits[0]?.hash ?? "");
    if (erasureId === undefined || !one.told.isAnswer) return [];
    return belongings(one.told, hits).map((subject) => ({ subject, erasureId }));
  });
  return {
    isOut: seen.map(({ subjects }) => hitsOf(subjects).length > 0),
    erasedPids: new Set([...named].filter(([, hash]) => erased.has(hash)).map(([pid]) => pid)),
    learnt,
  };
}

/** A subject and its hash. */
interface Noted {
  readonly subject: Subject;
  readonly hash: string;
}

/**
 * What belongs to an erased person by such an answer: its rows, and its PID unless that is what told. Not the other
 * addresses: families share them, and from one to the next everybody would be erased.
 */
function belongings({ pid, subjects }: Told, hits: readonly Noted[]): readonly Subject[] {
  const rows = subjects.filter(({ kind }) => kind === "source_key");
  const isByPid = hits.some(({ subject }) => subject.kind === "pid");
  return [...rows, ...(pid === null || isByPid ? [] : [pidOf(pid)])];
}

/** A subject as `erasure_subject` and `tombstone` have it: null where it is of another kind. */
export function subjectRow(key: ErasureKey, subject: Subject) {
  return {
    kind: subject.kind,
    /** Keyed, hex. */
    hash: subjectHash(key, subject),
    pid: subject.kind === "pid" ? subject.pid : null,
    source: subject.kind === "source_key" ? subject.source : null,
    source_key: subject.kind === "source_key" ? subject.sourceKey : null,
    email: subject.kind === "email" ? subject.address : null,
  };
}
