import { expect, test } from "vitest";
import { ALL_MUTATIONS } from "./mutate-answer.ts";
import { testSeed } from "../support/seeded-random.ts";
import { fuzzNights } from "./fuzz-nights.ts";
import { fuzzLookups } from "./fuzz-run.ts";
import { HARMLESS_REPLIES, REPLY_MUTATIONS } from "./reply-mutations.ts";
import { rowMaker } from "./row-maker.ts";

const seed = testSeed();
/** Damaged answers; CI asks for fewer. */
const ANSWERS = Number(process.env["PERSON_ETL_FUZZ_ANSWERS"] ?? 100_000);
const say = (text: string) => process.stdout.write(`fuzz, seed ${seed}: ${text}\n`);
const megabytes = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MB`;

test(`${ANSWERS} damaged answers, from their bytes to the rows that they leave`, async () => {
  const report = await fuzzLookups({ seed, answers: ANSWERS, maker: rowMaker });
  say(
    `${report.answers} damaged answers of ${report.records} records; slowest ${Math.round(report.slowestCpuMs)} ms of CPU ` +
      `(${report.slowest}); heap at most ${megabytes(report.maxHeapBytes)}, after the last ${megabytes(report.keptHeapBytes)}`,
  );
  expect(report.failures).toEqual([]);
  expect([...report.applied].filter(([, times]) => times < ANSWERS / 1000)).toEqual([]);
  expect(report.slowestCpuMs).toBeLessThan(10_000);
  expect(report.maxHeapBytes).toBeLessThan(1024 ** 3);
  expect(report.keptHeapBytes).toBeLessThan(100 * 1024 ** 2);
}, 1_800_000);

test(`${ANSWERS / 25} damaged answers over HTTP into Postgres`, async () => {
  const report = await fuzzNights({ seed, answers: ANSWERS / 25 });
  say(
    `${report.mutated} damaged answers in ${report.nights} nights, ${report.soundRecords} sound results compared in the warehouse`,
  );
  expect(report.failures).toEqual([]);
  const all = [...ALL_MUTATIONS, ...Object.keys(REPLY_MUTATIONS), ...Object.keys(HARMLESS_REPLIES)];
  const never = all.filter((name) => !report.applied.has(name));
  // Of a few hundred each kind may not come up.
  expect(ANSWERS < 100_000 ? [] : never).toEqual([]);
}, 1_800_000);
