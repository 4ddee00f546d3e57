import { sql } from "kysely";
import { judge, type Learnt, recordSubjects, type Told } from "../keep-out.ts";
import { type ErasureKey, subjectHash } from "../subject-hash.ts";
import type { LoadSpec, LookupRecord } from "../warehouse.ts";
import type { CommitFile } from "./commit-file.ts";
import { openLineFile, readLines } from "./line-file.ts";
import { lineWithoutNamed } from "./line-without-named.ts";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** The lines of a commit without the erased. */
export interface KeptLines {
  readonly path: string;
  /** How many. */
  readonly lines: number;
  /** What else the erased turn out to be known by. */
  readonly learnt: readonly Learnt[];
  /** Hashes of the records that were left out, hex. */
  readonly outHashes: readonly string[];
}

/** Lines that are looked up at once: a request takes at most 10 MB of parameters. */
const CHUNK = 2000;

/** What becomes of a line: it is left out, or goes without what names these PIDs. */
type Change = "out" | ReadonlySet<string>;

/** Leaves out of a commit's lines who was erased: into another file, where there is anything to be left out. */
export async function keepOut(
  session: Session,
  key: ErasureKey,
  file: CommitFile,
  keptPath: string,
): Promise<KeptLines> {
  const changes = new Map<number, Change>();
  const learnt: Learnt[] = [];
  for await (const { first, told } of chunksOf(file.toldPath)) {
    const verdict = await judge(key, told, (hashes) => findErased(session, hashes));
    learnt.push(...verdict.learnt);
    for (const [i, { named }] of told.entries()) {
      if (verdict.isOut[i]) changes.set(first + i, "out");
      else if (named.some((pid) => verdict.erasedPids.has(pid))) changes.set(first + i, verdict.erasedPids);
    }
  }
  const { lines } = file.facts;
  if (changes.size === 0) return { path: file.path, lines, learnt, outHashes: [] };
  const outHashes = await copyLines(file.path, keptPath, changes);
  return { path: keptPath, lines: lines - outHashes.length, learnt, outHashes };
}

/** What lines say of people; `first` is the number of the first one. */
async function* chunksOf(path: string): AsyncGenerator<{ first: number; told: readonly Told[] }> {
  let told: Told[] = [];
  let first = 0;
  for await (const line of readLines(path)) {
    // Written by openCommitFile.
    told.push(JSON.parse(line.toString()) as Told);
    if (told.length < CHUNK) continue;
    yield { first, told };
    first += told.length;
    told = [];
  }
  if (told.length > 0) yield { first, told };
}

const LINE_BREAK = Buffer.from("\n");

/** Returns the hashes of the records that it left out. */
async function copyLines(
  from: string,
  to: string,
  changes: ReadonlyMap<number, Change>,
): Promise<readonly string[]> {
  const file = openLineFile(to);
  const outHashes: string[] = [];
  try {
    let at = 0;
    for await (const line of readLines(from)) {
      const change = changes.get(at++);
      if (change === "out") {
        // As recordMembers has written it.
        outHashes.push((JSON.parse(line.toString()) as { readonly sent_hash: string }).sent_hash);
        continue;
      }
      const kept = change === undefined ? line : Buffer.from(lineWithoutNamed(line.toString(), change));
      file.append(Buffer.concat([kept, LINE_BREAK]));
      await file.settle();
    }
  } finally {
    await file.close();
  }
  return outHashes;
}

/** Records without those that name an erased person. */
export async function withoutErased(
  session: Session,
  key: ErasureKey,
  spec: LoadSpec,
  records: readonly LookupRecord[],
): Promise<readonly LookupRecord[]> {
  const told = records.map(
    (record): Told => ({
      subjects: recordSubjects(spec, record),
      pid: null,
      named: [],
      isAnswer: false,
    }),
  );
  const { isOut } = await judge(key, told, (hashes) => findErased(session, hashes));
  return records.filter((_, i) => !isOut[i]);
}

/** Of these hashes those of erased people, with the erasure of each. */
async function findErased(session: Session, hashes: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (hashes.length === 0) return new Map();
  const rows = await session.rows<{ hash: string; erasure_id: string }>(sql`
    SELECT TO_HEX(subject_hash) AS hash, erasure_id FROM ${tableId(session.names, "ops", "erasure_subject")}
    WHERE subject_hash IN (SELECT FROM_HEX(h) FROM UNNEST(${[...hashes]}) AS h)`);
  return new Map(rows.map((row) => [row.hash, row.erasure_id]));
}

/** Of these PIDs those of erased people. */
export async function findErasedPids(
  session: Session,
  key: ErasureKey,
  pids: readonly string[],
): Promise<ReadonlySet<string>> {
  const hashes = pids.map((pid) => [pid, subjectHash(key, { kind: "pid", pid })] as const);
  const erased = await findErased(
    session,
    hashes.map(([, hash]) => hash),
  );
  return new Set(hashes.flatMap(([pid, hash]) => (erased.has(hash) ? pid : [])));
}
