import { seededRandom } from "../support/seeded-random.ts";
import { findDefect, findScanDifference, type RowMaker, soundRows } from "./fuzz-lookup.ts";
import { ALL_MUTATIONS, type MutatedAnswer, mutateAnswer } from "./mutate-answer.ts";
import { askForAnswers, type RealAnswer } from "./real-answers.ts";
import { collectGarbage } from "../../src/garbage.ts";

/** Size of a fuzz run. */
export interface FuzzOptions {
  readonly seed: number;
  readonly answers: number;
  readonly maker: RowMaker;
}

/** Distinct real answers, the base of mutations. */
const BATCHES = 40;
const MAX_RECORDS = 6;
/** Failures before it stops. */
const MAX_FAILURES = 5;

interface Case {
  readonly name: string;
  readonly answer: RealAnswer;
  readonly mutated: MutatedAnswer;
  readonly sound: ReadonlyMap<string, string>;
}

async function check({ answer, mutated, sound }: Case, maker: RowMaker): Promise<string | null> {
  try {
    return (await findScanDifference(answer, mutated)) ?? (await findDefect(answer, mutated, sound, maker));
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  }
}

function usedHeapBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Damages real answers one by one and looks each up; case `n` of a seed is always the same. */
export async function fuzzLookups({ seed, maker, ...options }: FuzzOptions) {
  const real = await askForAnswers(seed, BATCHES, MAX_RECORDS);
  const sound = await Promise.all(real.map((answer) => soundRows(answer, maker)));
  const failures: string[] = [];
  const applied = new Map(ALL_MUTATIONS.map((name) => [name, 0]));
  const before = usedHeapBytes();
  let [answers, records, maxHeapBytes] = [0, 0, 0];
  let slowest = { cpuMs: 0, name: "" };

  function caseOf(n: number): Case {
    const random = seededRandom(seed, n);
    const at = random.below(real.length);
    const answer = real[at];
    if (!answer) throw new Error("no real answers to mutate");
    const mutated = mutateAnswer(answer.parts, random);
    const name = `seed ${seed}, case ${n} (${answer.bound.endpoint.name}: ${mutated.mutations.join(", ")})`;
    return { name, answer, mutated, sound: sound[at] ?? new Map() };
  }

  for (; answers < options.answers && failures.length < MAX_FAILURES; answers++) {
    const next = caseOf(answers);
    for (const name of next.mutated.mutations) applied.set(name, (applied.get(name) ?? 0) + 1);
    records += next.answer.records.length;
    const cpu = process.cpuUsage();
    const defect = await check(next, maker);
    const { user, system } = process.cpuUsage(cpu);
    const cpuMs = (user + system) / 1000;
    if (cpuMs > slowest.cpuMs) slowest = { cpuMs, name: next.name };
    if (defect !== null) failures.push(`${next.name}: ${defect}`);
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
