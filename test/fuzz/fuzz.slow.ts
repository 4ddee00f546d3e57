import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { isFullSize, sized } from "../support/test-size.ts";
import { textOf } from "./answer-mutations.ts";
import { findDefect, fuzzAnswers, soundRows } from "./fuzz-answers.ts";
import { fuzzNights } from "./fuzz-nights.ts";
import { readWhole } from "./reference-reading.ts";
import { ALL_MUTATIONS } from "./mutate-answer.ts";
import { askForAnswers } from "./real-answers.ts";
import { HARMLESS_REPLIES, REPLY_MUTATIONS } from "./reply-mutations.ts";

const seed = testSeed();
const ANSWERS = sized(2_500, 100_000);
const say = (text: string) => process.stdout.write(`fuzz, seed ${seed}: ${text}\n`);
const megabytes = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MB`;

test(`${ANSWERS} damaged answers, from their bytes to their rows: each record has its result, no neighbor is touched`, async () => {
  const report = await fuzzAnswers({ seed, answers: ANSWERS });
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

test(`${ANSWERS / 25} damaged answers over HTTP into Postgres: it holds exactly the sound ones`, async () => {
  const report = await fuzzNights({ seed, answers: ANSWERS / 25 });
  say(
    `${report.mutated} damaged answers in ${report.nights} nights, ${report.soundRecords} sound results compared in the warehouse`,
  );
  expect(report.failures).toEqual([]);
  const all = [...ALL_MUTATIONS, ...Object.keys(REPLY_MUTATIONS), ...Object.keys(HARMLESS_REPLIES)];
  // Some kinds don't occur among a few hundred cases.
  expect(isFullSize ? all.filter((name) => !report.applied.has(name)) : []).toEqual([]);
}, 1_800_000);

test("an answer with 300 MB of blanks is read in little memory", async () => {
  const [real] = await askForAnswers(1, 1, 1);
  if (!real) throw new Error("no answer");
  // 300 MB of blanks in 300 KB.
  const text = Buffer.from(textOf(real.parts));
  const packed = gzipSync(Buffer.concat([text, Buffer.alloc(300 * 1024 * 1024, " ")]), { level: 1 });
  const first = { contentEncoding: "gzip", bytes: packed };
  const whole = readWhole({ contentEncoding: null, bytes: text });
  const before = process.memoryUsage().rss;
  const sound = await soundRows(real);
  expect(await findDefect(real, first, sound, whole)).toBe(null);
  expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024);
}, 180_000);
