import { type ErasureKey, type Subject, subjectHash } from "./subject-hash.ts";
import type { LookupAnswer, LookupReject } from "../lookups/answer.ts";
import type { LookupRecord } from "../lookups/lookup.ts";
import type { LoadSpec } from "../lookups/lookup.ts";

/** People named in an answer's person. */
export interface NamedByPerson {
  readonly pid: string;
  readonly addresses: readonly string[];
  /** PIDs of other people. */
  readonly named: readonly string[];
}

/** People named in an answer or a reject. */
export interface NamedPeople {
  /** Identifiers of the requested person: if any was erased, the answer is dropped. */
  readonly subjects: readonly Subject[];
  /** PID of the answer; null without one. */
  readonly pid: string | null;
  /** PIDs of other people; erased ones are removed from the answer. */
  readonly named: readonly string[];
  /** True for an answer, which may add identifiers of an erased person; false for a reject. */
  readonly isAnswer: boolean;
}

/** Identifiers of an erased person first found in an answer. */
export interface NewIdentifier {
  readonly subject: Subject;
  readonly erasureId: string;
}

/** Decision on a group of answers and rejects. */
export interface Verdict {
  /** Indexes of dropped items. */
  readonly isDropped: readonly boolean[];
  /** Erased PIDs among {@link NamedPeople.named}. */
  readonly erasedPids: ReadonlySet<string>;
  /** May contain duplicates. */
  readonly newIdentifiers: readonly NewIdentifier[];
}

/** Finds hashes of erased people, with the erasure of each. */
export type FindErased = (hashes: readonly string[]) => Promise<ReadonlyMap<string, string>>;

const emailOf = (address: string): Subject => ({ kind: "email", address });
const pidOf = (pid: string): Subject => ({ kind: "pid", pid });

/** People named in an answer. @param person null without one */
export function namedByAnswer(
  spec: LoadSpec,
  answer: LookupAnswer,
  person: NamedByPerson | null,
  sourceKeys: readonly string[],
): NamedPeople {
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

/** People named in a reject. */
export function namedByReject(
  spec: LoadSpec,
  { record }: LookupReject,
  sourceKeys: readonly string[],
): NamedPeople {
  return { subjects: recordSubjects(spec, record, sourceKeys), pid: null, named: [], isAnswer: false };
}

/** Subjects of a record. @param sourceKeys its input rows */
function recordSubjects(
  spec: LoadSpec,
  record: LookupRecord,
  sourceKeys: readonly string[],
): readonly Subject[] {
  if (spec.type === "validate_emails") return [emailOf(record.address ?? "")];
  const { emails, service_pid: pid } = readRecord(record.json);
  return [
    ...sourceKeys.map((sourceKey): Subject => ({ kind: "source_key", source: spec.source, sourceKey })),
    ...emails.map(emailOf),
    ...[record.sentPid, pid].flatMap((one) => (one === null ? [] : pidOf(one))),
  ];
}

function readRecord(json: string): {
  readonly emails: readonly string[];
  readonly service_pid: string | null;
} {
  // Every record is built from input rows by this program.
  const record = JSON.parse(json) as { readonly emails?: readonly string[]; readonly service_pid?: string };
  return { emails: record.emails ?? [], service_pid: record.service_pid ?? null };
}

/** Decides which items name erased people, and collects newly found identifiers. */
export async function judge(
  key: ErasureKey,
  items: readonly NamedPeople[],
  findErased: FindErased,
): Promise<Verdict> {
  const note = (subject: Subject) => ({ subject, hash: subjectHash(key, subject) });
  const seen = items.map((one) => ({ item: one, subjects: one.subjects.map(note) }));
  const named = new Map(
    [...new Set(items.flatMap((one) => one.named))].map((pid) => [pid, note(pidOf(pid)).hash]),
  );
  const hashes = seen.flatMap(({ subjects }) => subjects.map(({ hash }) => hash));
  const erased = await findErased([...new Set([...hashes, ...named.values()])]);
  const hitsOf = (subjects: readonly Noted[]) => subjects.filter(({ hash }) => erased.has(hash));
  const newIdentifiers = seen.flatMap((one) => {
    const hits = hitsOf(one.subjects);
    const erasureId = erased.get(hits[0]?.hash ?? "");
    if (erasureId === undefined || !one.item.isAnswer) return [];
    return newlyFound(one.item, hits).map((subject) => ({ subject, erasureId }));
  });
  return {
    isDropped: seen.map(({ subjects }) => hitsOf(subjects).length > 0),
    erasedPids: new Set([...named].filter(([, hash]) => erased.has(hash)).map(([pid]) => pid)),
    newIdentifiers,
  };
}

/** A subject and its hash. */
interface Noted {
  readonly subject: Subject;
  readonly hash: string;
}

/**
 * Returns newly found identifiers of an erased person: the input rows, and the PID unless it was the match. Excludes
 * other addresses: families share them, so the erasure would spread to other people.
 */
function newlyFound({ pid, subjects }: NamedPeople, hits: readonly Noted[]): readonly Subject[] {
  const rows = subjects.filter(({ kind }) => kind === "source_key");
  const isByPid = hits.some(({ subject }) => subject.kind === "pid");
  return [...rows, ...(pid === null || isByPid ? [] : [pidOf(pid)])];
}

/** Columns of a subject in `erasure_subject` and `tombstone`; null for those of other kinds. */
export function subjectRow(key: ErasureKey, subject: Subject) {
  return {
    kind: subject.kind,
    /** Keyed hash, hex. */
    hash: subjectHash(key, subject),
    pid: subject.kind === "pid" ? subject.pid : null,
    source: subject.kind === "source_key" ? subject.source : null,
    source_key: subject.kind === "source_key" ? subject.sourceKey : null,
    email: subject.kind === "email" ? subject.address : null,
  };
}
