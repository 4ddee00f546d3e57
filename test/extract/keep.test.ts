import { access, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { makeRoot } from "../spool/spool-folder.ts";
import { addressItems, idsExcept, runLookup, someItems } from "./run-lookup.ts";
import {
  answerAll,
  envelope,
  type Reply,
  resultOf,
  type ScriptedService,
  send,
  startService,
} from "./scripted-service.ts";
import { openSpoolKeeper } from "./spool-keeper.ts";

let service: ScriptedService | null = null;
afterEach(async () => {
  await service?.close();
  service = null;
});

async function start(reply: Reply): Promise<ScriptedService> {
  service = await startService(reply);
  return service;
}

/** Waits until it is so; the test's own time limit ends the wait. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await delay(5);
}

/** Bytes of bodies that are alive. */
function liveBytes(): number {
  setFlagsFromString("--expose-gc");
  // The flag gives every new context the function.
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().arrayBuffers;
}

describe("an answer that cost money", () => {
  test("is on disk before anything else is done with it", async () => {
    const { url } = await start(answerAll);
    const keeper = await openSpoolKeeper();
    const run = await runLookup(url, someItems(40), {
      keeper,
      async onOutcome(outcome) {
        if (outcome.kind !== "answered") throw new Error(outcome.kind);
        const call = keeper.kept.find(({ callId }) => callId === outcome.attempt.callId);
        await access(call?.path ?? "");
        await keeper.release(outcome.attempt.callId);
      },
    });
    expect([run.error, run.answered, keeper.kept.length]).toEqual([null, idsExcept(40), 10]);
    expect(keeper.spool.calls).toBe(0);
  });

  test("is kept as received, also when it can't be read; other replies are not", async () => {
    const replies: Reply[] = [
      (_request, response) => send(response, 503, {}),
      (_request, response) => send(response, 429, {}),
      (_request, response) => send(response, 200, "no JSON at all"),
    ];
    const { url } = await start((request, response) =>
      (replies[request.index] ?? answerAll)(request, response),
    );
    const keeper = await openSpoolKeeper();
    const run = await runLookup(url, someItems(4), { keeper });
    expect([run.error, run.answered]).toEqual([null, idsExcept(4)]);
    const [unreadable, answer] = keeper.kept;
    expect(unreadable && (await keeper.spool.read(unreadable))).toMatchObject({
      header: { items: someItems(4) },
      body: Buffer.from("no JSON at all"),
    });
    expect([answer?.callId, keeper.kept.length]).toEqual([run.attempts.at(-1)?.callId, 2]);
  });

  test("that can't be kept is handed out all the same; nothing more is sent, and the reason is thrown", async () => {
    let arrived = 0;
    const { url, requests } = await start(async (request, response) => {
      arrived += 1;
      await until(() => arrived >= 2);
      answerAll(request, response);
    });
    const root = await makeRoot();
    const keeper = await openSpoolKeeper({ root });
    // A file where the folder was: no write can succeed.
    await rm(keeper.spool.folder, { recursive: true });
    await writeFile(keeper.spool.folder, "");
    const run = await runLookup(url, someItems(40), { keeper, concurrency: 2 });
    expect(requests).toHaveLength(2);
    expect(run.answered).toEqual(idsExcept(8));
    expect(run.error).toMatchObject({
      code: "spool_failed",
      message: expect.stringContaining(keeper.spool.folder),
    });
    await rm(dirname(keeper.spool.folder), { recursive: true });
  });

  test("and is still under way when the consumer gives up is waited for and kept", async () => {
    const { url } = await start(async (request, response) => {
      await delay(request.index === 0 ? 0 : 100);
      answerAll(request, response);
    });
    const keeper = await openSpoolKeeper();
    const run = await runLookup(url, someItems(40), {
      keeper,
      concurrency: 4,
      onOutcome() {
        throw new Error("the warehouse is gone");
      },
    });
    expect(run.error).toMatchObject({ message: "the warehouse is gone" });
    expect(keeper.spool.calls).toBe(service?.requests.length);
    expect(keeper.spool.calls).toBeGreaterThanOrEqual(4);
  });
});

describe("answers that wait", () => {
  const MEGABYTE = "x".repeat(1024 * 1024);
  /** A megabyte, uncompressed, with a result for each record. */
  const answerMuch: Reply = ({ records }, response) =>
    send(response, 200, { ...envelope(records.map(resultOf)), padding: MEGABYTE });

  test("stop further calls beyond a few megabytes while calls may not run ahead", async () => {
    const { url, requests } = await start(answerMuch);
    const keeper = await openSpoolKeeper();
    let seenWhileWaiting = 0;
    const run = await runLookup(url, someItems(120), {
      keeper,
      concurrency: 8,
      async onOutcome() {
        if (seenWhileWaiting > 0) return;
        await delay(300);
        seenWhileWaiting = requests.length;
      },
    });
    expect(run.answered).toEqual(idsExcept(120));
    expect(seenWhileWaiting).toBeLessThanOrEqual(9);
  });

  test("wait on disk while calls run ahead, memory stays flat, and every record gets its own result", async () => {
    const { url, requests } = await start(answerMuch);
    const keeper = await openSpoolKeeper({ runsAhead: true });
    const before = liveBytes();
    let grownBytes = -1;
    const run = await runLookup(url, someItems(96), {
      keeper,
      concurrency: 2,
      async onOutcome({ kind }) {
        expect(kind).toBe("answered");
        if (grownBytes >= 0) return;
        // Nobody asks for the next outcome meanwhile: calls go on by themselves.
        await until(() => requests.length === 24 && keeper.kept.length === 24);
        // What is garbage may take a moment to be noticed as such.
        const seen: number[] = [];
        for (let tries = 0; tries < 10; tries += 1) {
          seen.push(liveBytes() - before);
          await delay(20);
        }
        grownBytes = Math.max(0, Math.min(...seen));
      },
    });
    expect(run.error).toBeNull();
    expect(run.answered).toEqual(idsExcept(96));
    for (const outcome of run.outcomes) {
      const ids = outcome.kind === "answered" ? outcome.results.map((result) => result["record_id"]) : [];
      expect(ids).toEqual(outcome.items.map(({ recordId }) => recordId));
    }
    expect(keeper.kept.reduce((sum, { bytes }) => sum + bytes, 0)).toBeGreaterThan(24 * 1024 * 1024);
    expect(grownBytes).toBeLessThan(12 * 1024 * 1024);
  });

  test("on disk keep their records' histories: what was left out is asked again, what was lost counts", async () => {
    const seen = new Set<unknown>();
    const { url, requests } = await start(({ index, records }, response) => {
      const first = records[0]?.["record_id"];
      const isAskedAgain = seen.has(first);
      for (const record of records) seen.add(record["record_id"]);
      if (index === 6) {
        response.destroy();
        return;
      }
      // Of every first answer one result is missing.
      const results = isAskedAgain ? records : records.slice(1);
      send(response, 200, { ...envelope(results.map(resultOf)), padding: MEGABYTE });
    });
    const keeper = await openSpoolKeeper({ runsAhead: true });
    let hasWaited = false;
    const run = await runLookup(url, someItems(40), {
      keeper,
      concurrency: 1,
      async onOutcome() {
        if (!hasWaited) await until(() => requests.length >= 7);
        hasWaited = true;
      },
    });
    expect(run.error).toBeNull();
    expect([run.answered, run.rejected]).toEqual([idsExcept(40), []]);
    expect(requests.flatMap(({ records }) => records.map(({ city }) => city))).toHaveLength(40 + 4 + 9);
    const twice = run.attempts.filter(({ possiblyBilledTwice }) => possiblyBilledTwice > 0);
    // The call that was lost, and the nine left out.
    expect(twice.map(({ possiblyBilledTwice }) => possiblyBilledTwice).toSorted((a, b) => a - b)).toEqual([
      1, 4, 4, 4,
    ]);
  });

  test("up to the spool's bound: then calls wait until something was loaded", async () => {
    const { url, requests } = await start(answerMuch);
    const keeper = await openSpoolKeeper({ runsAhead: true, maxBytes: 5.5 * 1024 * 1024 });
    let most = 0;
    let seenWhileFull = 0;
    const run = await runLookup(url, someItems(80), {
      keeper,
      concurrency: 2,
      async onOutcome(outcome) {
        most = Math.max(most, keeper.spool.bytes);
        if (seenWhileFull === 0) {
          await until(() => keeper.kept.length >= 5);
          await delay(100);
          seenWhileFull = requests.length;
        }
        if (outcome.kind === "answered") await keeper.release(outcome.attempt.callId);
      },
    });
    expect([run.error, run.answered.length, requests.length]).toEqual([null, 80, 20]);
    expect(seenWhileFull).toBe(5);
    expect(most).toBeLessThanOrEqual(5.5 * 1024 * 1024);
  });
});

test("a kept answer is read by the next run as it was when it came in", async () => {
  const replies: Reply[] = [
    (_request, response) => response.destroy(),
    ({ records }, response) => send(response, 200, { ...envelope(records.slice(1).map(resultOf)), more: 1 }),
    (_request, response) => send(response, 200, "no JSON at all"),
    (_request, response) => send(response, 200, envelope([])),
  ];
  const { url } = await start((request, response) =>
    (replies[request.index] ?? answerAll)(request, response),
  );
  const keeper = await openSpoolKeeper();
  const run = await runLookup(url, someItems(16), { keeper, concurrency: 1 });
  expect([run.error, run.answered]).toEqual([null, idsExcept(16)]);
  const outcomeOf = new Map(
    run.outcomes.flatMap((outcome) =>
      outcome.kind === "answered" ? [[outcome.attempt.callId, outcome]] : [],
    ),
  );
  const doubts: [boolean, number][] = [];
  for (const { callId } of keeper.kept) {
    const { attempt, outcome } = await keeper.settle(callId);
    expect(attempt).toEqual(run.attempts.find((attempt) => attempt.callId === callId));
    expect(outcome).toEqual(outcomeOf.get(callId) ?? null);
    doubts.push([attempt.possiblyBilled, attempt.possiblyBilledTwice]);
  }
  // Among them are one that can't be read, and one whose records had been lost before.
  expect([doubts.some(([isDoubtful]) => isDoubtful), doubts.some(([, twice]) => twice > 0)]).toEqual([
    true,
    true,
  ]);
});

test("an address that was validated is kept with its answer", async () => {
  const { url } = await start(({ records }, response) =>
    send(response, 200, envelope(records.map((record) => ({ ...record, is_match: true })))),
  );
  const keeper = await openSpoolKeeper();
  const items = addressItems(["a@example.com", "b@example.com"]);
  const run = await runLookup(url, items, { keeper });
  expect(run.answered).toEqual(["r0", "r1"]);
  const [call] = keeper.kept;
  expect(call && (await keeper.spool.read(call))).toMatchObject({ header: { items } });
});
