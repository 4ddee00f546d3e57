import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { testSeed } from "../support/seeded-random.ts";
import { textOf } from "./answer-mutations.ts";
import { findDefect, soundRows } from "./fuzz-lookup.ts";
import { fuzzNights } from "./fuzz-nights.ts";
import { fuzzLookups } from "./fuzz-run.ts";
import { askForAnswers } from "./real-answers.ts";
import { rowMaker } from "./row-maker.ts";

// The same few answers in every run; `npm run test:fuzz` damages many more, and others each time.

test("whatever an answer looks like, all records come out once and no neighbour is touched", async () => {
  const report = await fuzzLookups({ seed: testSeed(1), answers: 1000, maker: rowMaker });
  expect(report.failures).toEqual([]);
}, 120_000);

test("a warehouse that is loaded from a damaging service holds exactly what was answered soundly", async () => {
  const report = await fuzzNights({ seed: testSeed(1), answers: 80, rows: 150 });
  expect(report.failures).toEqual([]);
  expect(report.mutated).toBeGreaterThanOrEqual(80);
}, 240_000);

test("an answer that would take more memory than a process has counts as lost", async () => {
  const [real] = await askForAnswers(1, 1, 1);
  if (!real) throw new Error("no answer");
  // 300 MB of blanks in 300 KB.
  const bytes = gzipSync(
    Buffer.concat([Buffer.from(textOf(real.parts)), Buffer.alloc(300 * 1024 * 1024, " ")]),
    { level: 1 },
  );
  const before = process.memoryUsage().rss;
  const sound = await soundRows(real, rowMaker);
  expect(await findDefect(real, { contentEncoding: "gzip", bytes }, sound, rowMaker, null)).toBe(null);
  expect(process.memoryUsage().rss - before).toBeLessThan(700 * 1024 * 1024);
}, 60_000);
