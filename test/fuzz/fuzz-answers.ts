import { collectGarbage } from "../../src/garbage.ts";
import { createRowStore, decodePerson, encodePerson } from "../../src/load/lookups/person-groups.ts";
import { isJsonObject } from "../../src/schemas/flatten.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { takeAnyAnswer, takeLargeAnswer } from "../support/take-any-answer.ts";
import { textOf } from "./answer-mutations.ts";
import type { WireBody } from "./byte-mutations.ts";
import { ALL_MUTATIONS, mutateAnswer } from "./mutate-answer.ts";
import { askForAnswers, type RealAnswer } from "./real-answers.ts";
import { isSame, type Reading, readWhole } from "./reference-reading.ts";

/** Distinct real answers, the base of mutations. */
const BATCHES = 40;
const MAX_RECORDS = 6;
/** Failures before it stops. */
const MAX_FAILURES = 5;

/** Reads an answer from its bytes to rows. */
function readRows(
  { bound, records }: RealAnswer,
  { contentEncoding, bytes }: WireBody,
  take = takeAnyAnswer,
) {
  const call = {
    endpoint: bound.endpoint.name,
    callId: "00000000-0000-4000-8000-000000000000",
    attempt: 1,
    startedAtMs: Date.UTC(2026, 10, 21),
    milliseconds: 0,
    contentEncoding,
    body: bytes,
    items: records,
    possiblyBilledBefore: records.map(() => 0),
  };
  return take(bound.endpoint, call, (result, { drift }) => {
    const part = bound.read(result, drift);
    const person = part.person && decodePerson(encodePerson(part.person, createRowStore(1024)));
    return { result, cells: [...part.cells, part.extra, part.servicePid], rows: { ...part, person } };
  });
}

/** Rows of an undamaged answer as text, by record. */
export async function soundRows(answer: RealAnswer): Promise<readonly string[]> {
  const { results } = await readRows(answer, {
    contentEncoding: null,
    bytes: Buffer.from(textOf(answer.parts)),
  });
  return results.map((one) => JSON.stringify(one?.rows));
}

/** Content that no warehouse can store, or null. */
function findUnstorable(cells: readonly unknown[]): string | null {
  for (const cell of cells) {
    if (cell === null) continue;
    if (typeof cell !== "string") return `a cell is ${typeof cell}`;
    if (cell.includes("\u0000")) return "a cell holds NUL";
    if (!cell.isWellFormed()) return "a cell holds half a surrogate pair";
  }
  return null;
}

/** Result of one record, from one whole parse: `undefined` if there isn't exactly one. */
function claimOf(results: readonly unknown[], field: string, key: string): unknown {
  const claims = results.filter((result) => isJsonObject(result) && result[field] === key);
  return claims.length === 1 ? claims[0] : undefined;
}

/** Difference between reading an answer in memory and result by result from its bytes as received, or null. */
async function findScanDifference(answer: RealAnswer, wire: WireBody): Promise<string | null> {
  const [inMemory, scanned] = await Promise.all(
    [takeAnyAnswer, takeLargeAnswer].map(async (take) => {
      const { results, summary, attempt, completedAt } = await readRows(answer, wire, take);
      // What is wrong with it may be found in another order.
      if (summary.kind === "unreadable") return summary.kind;
      return { results: results.map((one) => one?.result), summary, attempt, completedAt };
    }),
  );
  return isSame(inMemory, scanned, { nesting: true }) ? null : "read result by result it is another answer";
}

/**
 * Reads an answer and returns the problem, or null: each record has the result that the answer has for it as a whole, and undamaged
 * results have the rows of `sound`. @param whole content of the answer; null for an unreadable one
 */
export async function findDefect(
  answer: RealAnswer,
  wire: WireBody,
  sound: readonly string[],
  whole: Reading | null = readWhole(wire),
): Promise<string | null> {
  const { results, attempt } = await readRows(answer, wire);
  if (whole === null)
    return attempt.possiblyBilled ? null : "an unreadable answer doesn't count as possibly billed";
  const keyField = answer.bound.endpoint.pairing === "record_id" ? "record_id" : "email_address";
  for (const [i, { recordId, address = recordId }] of answer.records.entries()) {
    const found = results[i];
    const claim = claimOf(whole.results, keyField, address);
    const unstorable = findUnstorable(found?.cells ?? []);
    if (unstorable !== null) return `${recordId}: ${unstorable}`;
    if (claim === undefined || found === null) continue;
    if (!found) return `${recordId} was answered, and would be sent again`;
    if (!isSame(found.result, claim, { numbers: !whole.isExact, nesting: true }))
      return `${recordId}: the result isn't what the answer says as a whole`;
    const isUntouched = isSame(JSON.parse(answer.parts.results[i] ?? "null"), claim);
    if (isUntouched && JSON.stringify(found.rows) !== sound[i])
      return `${recordId}: its neighbour's damage changed its rows`;
  }
  return null;
}

function usedHeapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Damages real answers one by one and reads each; case `n` of a seed is always the same. */
export async function fuzzAnswers({
  seed,
  answers: most,
}: {
  readonly seed: number;
  readonly answers: number;
}) {
  const real = await askForAnswers(seed, BATCHES, MAX_RECORDS);
  const sound = await Promise.all(real.map(soundRows));
  const failures: string[] = [];
  const applied = new Map(ALL_MUTATIONS.map((name) => [name, 0]));
  const before = usedHeapBytes();
  let [answers, records, maxHeapBytes] = [0, 0, 0];
  let slowest = { cpuMs: 0, name: "" };
  for (; answers < most && failures.length < MAX_FAILURES; answers++) {
    const random = seededRandom(seed, answers);
    const at = random.below(real.length);
    const answer = real[at];
    if (!answer) throw new Error("no real answers to mutate");
    const mutated = mutateAnswer(answer.parts, random);
    const name = `seed ${seed}, case ${answers} (${answer.bound.endpoint.name}: ${mutated.mutations.join(", ")})`;
    for (const mutation of mutated.mutations) applied.set(mutation, (applied.get(mutation) ?? 0) + 1);
    records += answer.records.length;
    const cpu = process.cpuUsage();
    try {
      const defect =
        (await findScanDifference(answer, mutated)) ?? (await findDefect(answer, mutated, sound[at] ?? []));
      if (defect !== null) failures.push(`${name}: ${defect}`);
    } catch (error) {
      failures.push(`${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    }
    const { user, system } = process.cpuUsage(cpu);
    const cpuMs = (user + system) / 1000;
    if (cpuMs > slowest.cpuMs) slowest = { cpuMs, name };
    if (answers % 50 === 0) maxHeapBytes = Math.max(maxHeapBytes, process.memoryUsage().heapUsed);
  }
  return {
    answers,
    records,
    /** Each with the arguments to reproduce it. */
    failures,
    /** Number of uses of each mutation. */
    applied,
    slowestCpuMs: slowest.cpuMs,
    slowest: slowest.name,
    maxHeapBytes,
    /** Heap in use at the end minus heap in use at the start. */
    keptHeapBytes: usedHeapBytes() - before,
  };
}
