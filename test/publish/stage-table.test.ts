import { writeFileSync } from "node:fs";
import { access, mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test, vi } from "vitest";
import { createStager } from "../../src/jobs/publish/publication.ts";
import { buildCatalog, type StagedFiles } from "../../src/publish/destination.ts";
import { tableIn } from "./staged-files.ts";

const table = tableIn(buildCatalog([], null), "person");

/** A part with one file. */
async function makePart(part: number): Promise<StagedFiles> {
  const file = join(await mkdtemp(join(inject("runFolder"), "part-")), "rows");
  writeFileSync(file, "");
  return { table, content: "rows", replaces: "all", part, files: [file], lines: 1, longestLineBytes: 1 };
}

/** A destination that stages each part once the test lets it. */
function makeDestination() {
  const begun: number[] = [];
  const gates: PromiseWithResolvers<void>[] = [];
  const stager = createStager(async ({ part }) => {
    begun.push(part);
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
  });
  /** Ends the staging of a part, once it has begun. */
  const end = async (index: number, error?: Error) => {
    const gate = await vi.waitUntil(() => gates[index]);
    if (error) gate.reject(error);
    else gate.resolve();
  };
  return { begun, stager, end };
}

const exists = (file = "") =>
  access(file).then(
    () => true,
    () => false,
  );

const filesLeft = (parts: readonly StagedFiles[]) => Promise.all(parts.map(({ files }) => exists(files[0])));

/** True if a promise is still pending after a round of the event loop. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  await new Promise(setImmediate);
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}

test("stages parts in order, one at a time, and removes their files; a fourth one waits", async () => {
  const { begun, stager, end } = makeDestination();
  const first = await Promise.all([0, 1, 2].map(makePart));
  const fourth = await makePart(3);
  const parts = [...first, fourth];
  for (const part of first) await stager.add(part);
  const adding = stager.add(fourth);
  expect(await isPending(adding)).toBe(true);
  expect(begun).toEqual([0]);
  await end(0);
  await adding;
  await vi.waitFor(() => expect(begun).toEqual([0, 1]));
  expect(await filesLeft(parts)).toEqual([false, true, true, true]);
  await end(1);
  await end(2);
  await end(3);
  await stager.finish();
  expect(begun).toEqual([0, 1, 2, 3]);
  expect(await filesLeft(parts)).toEqual([false, false, false, false]);
});

test("stages no part after a failed one, and throws its error", async () => {
  const { begun, stager, end } = makeDestination();
  for (const part of [0, 1, 2]) await stager.add(await makePart(part));
  await end(0, new Error("the destination is gone"));
  await expect(stager.finish()).rejects.toThrow("the destination is gone");
  await expect(stager.add(await makePart(3))).rejects.toThrow("the destination is gone");
  expect(begun).toEqual([0]);
});

test("discards waiting parts when it is abandoned, and waits for the one in progress", async () => {
  const { begun, stager, end } = makeDestination();
  for (const part of [0, 1, 2]) await stager.add(await makePart(part));
  const abandoning = stager.abandon();
  expect(await isPending(abandoning)).toBe(true);
  await end(0);
  await abandoning;
  expect(begun).toEqual([0]);
});
