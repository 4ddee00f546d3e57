import type { Db } from "../db/db.ts";
import { readSuppression, suppressedSql } from "./suppressed-sql.ts";
import { type RawBuilder, sql } from "kysely";
import { judge, type NewIdentifier, type NamedByPerson, namedByAnswer, namedByReject } from "./keep-out.ts";
import type { Identifiers } from "./people.ts";
import { addRequest } from "./requests.ts";
import { type ErasureKey, type Subject, subjectHash } from "./subject-hash.ts";
import type { LoadContext } from "../lookups/answer.ts";
import { noteSubjects } from "./note-subjects.ts";
import { addressesOf, namedBy, withoutNamed } from "./named-people.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { EncodedPerson } from "../lookups/person-groups.ts";
import type { Session } from "../db/session.ts";
import type { LookupAnswer, LookupReject } from "../lookups/answer.ts";
import type { LoadSpec } from "../lookups/lookup.ts";

/** Results of a group of calls, without erased people. */
export interface KeptResults {
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
}

/** Drops erased people from answers and rejects; records their newly found identifiers. */
export async function keepOut(
  context: LoadContext,
  key: ErasureKey,
  spec: LoadSpec,
  { answers, rejects }: KeptResults,
): Promise<KeptResults> {
  const records = [...answers, ...rejects].map(({ record }) => record.content);
  const judgeWith = (keys: ReadonlyMap<string, readonly string[]>) =>
    judge(
      key,
      [
        ...answers.map((answer) =>
          namedByAnswer(spec, answer, namedByPerson(personOf(answer)), keys.get(answer.record.content) ?? []),
        ),
        ...rejects.map((reject) => namedByReject(spec, reject, keys.get(reject.record.content) ?? [])),
      ],
      (hashes) => findErased(context.session, context.names, hashes),
    );
  const isErased = suppressedSql(context.names, key).sourceKey(spec.source, "w.source_key");
  let verdict = await judgeWith(await readKeys(context, spec, records, isErased));
  const out = records.filter((_, i) => verdict.isDropped[i]);
  // Reads only the rows of erased people: a record may belong to millions of rows.
  if (out.length > 0) verdict = await judgeWith(await readKeys(context, spec, out, sql`true`));
  const { isDropped, erasedPids, newIdentifiers } = verdict;
  await remember(context, key, newIdentifiers);
  return {
    answers: answers
      .filter((_, i) => !isDropped[i])
      .map((answer) => {
        const person = personOf(answer);
        return person && erasedPids.size > 0
          ? { ...answer, person: withoutNamed(person, erasedPids) }
          : answer;
      }),
    rejects: rejects.filter((_, i) => !isDropped[answers.length + i]),
  };
}

/** Reads the keys of each record's input rows. */
async function readKeys(
  { session, names }: LoadContext,
  spec: LoadSpec,
  contents: readonly string[],
  isMeant: RawBuilder<unknown>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  // Their key is the address, which is in the record.
  if (spec.type === "validate_emails") return new Map();
  const found = await session.rows<{ content: string; source_key: string }>(sql`
    SELECT encode(w.content, 'hex') AS content, w.source_key FROM ${tableId(names, "lookup_row")} AS w
    WHERE w.source = ${spec.source} AND w.content IN (SELECT decode(c, 'hex') FROM unnest(${contents}::text[]) AS u(c)) AND ${isMeant}`);
  const byRecord = Map.groupBy(found, ({ content }) => content);
  return new Map([...byRecord].map(([content, keys]) => [content, keys.map((row) => row.source_key)]));
}

/** Suppresses these subjects, and requests the removal of rows already stored. */
async function remember(
  { session, names, runId }: LoadContext,
  key: ErasureKey,
  newIdentifiers: readonly NewIdentifier[],
): Promise<void> {
  const byErasure = Map.groupBy(newIdentifiers, (one) => one.erasureId);
  for (const [erasureId, ones] of [...byErasure].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const subjects = ones.map(({ subject }) => subject);
    const added = await noteSubjects(session, names, key, { erasureId, runId }, subjects);
    if (added === 0) continue;
    const people = peopleOf(subjects);
    await addRequest(session, names, erasureId, { people, seed: people, sparesOthers: false });
  }
}

function peopleOf(subjects: readonly Subject[]): Identifiers {
  return {
    pids: subjects.flatMap((one) => (one.kind === "pid" ? one.pid : [])),
    emails: subjects.flatMap((one) => (one.kind === "email" ? one.address : [])),
    rows: subjects.flatMap((one) =>
      one.kind === "source_key" ? { source: one.source, sourceKey: one.sourceKey } : [],
    ),
  };
}

/** Every prepared person is made by encodePerson. */
function personOf({ person }: LookupAnswer): EncodedPerson | null {
  return person as EncodedPerson | null;
}

function namedByPerson(person: EncodedPerson | null): NamedByPerson | null {
  return person && { pid: person.pid, addresses: addressesOf(person), named: namedBy(person) };
}

/** Finds hashes of erased people, with the erasure of each. */
export async function findErased(
  session: Session,
  names: SchemaNames,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await session.rows<{ hash: string; erasure_id: string }>(sql`
    SELECT encode(subject_hash, 'hex') AS hash, erasure_id::text AS erasure_id
    FROM ${tableId(names, "erasure_subject")}
    WHERE subject_hash IN (SELECT decode(h, 'hex') FROM unnest(${[...hashes]}::text[]) AS u(h))`);
  return new Map(rows.map((row) => [row.hash, row.erasure_id]));
}

/** Finds PIDs of erased people. */
export async function findErasedPids(
  session: Session,
  names: SchemaNames,
  key: ErasureKey,
  pids: readonly string[],
): Promise<ReadonlySet<string>> {
  const hashes = pids.map((pid) => [pid, subjectHash(key, { kind: "pid", pid })] as const);
  const erased = await findErased(
    session,
    names,
    hashes.map(([, hash]) => hash),
  );
  return new Set(hashes.flatMap(([pid, hash]) => (erased.has(hash) ? pid : [])));
}

/** Returns the PIDs of erased people; runs only one query if no one was erased. */
export async function suppressedPids(db: Db, pids: readonly string[]): Promise<ReadonlySet<string>> {
  if (pids.length === 0) return new Set();
  return db.transaction(async (session) => {
    const { key } = await readSuppression(session, db.names, db.readErasureSecret);
    return key === null ? new Set<string>() : findErasedPids(session, db.names, key, pids);
  });
}

/** Throws a FixConfigurationError unless the key is the one used for earlier erasures. */
export async function checkErasureKey(db: Db): Promise<void> {
  await db.transaction((session) => readSuppression(session, db.names, db.readErasureSecret));
}
