import { expect, test } from "vitest";
import * as fc from "../support/fast-check.ts";
import { drive, failure, response, type Service } from "./drive.ts";

const answered = { omits: [] };
const unreadable = { kind: "unreadable", reason: "no_json", isTooLarge: false } as const;
const tooLarge = { kind: "unreadable", reason: "body_too_large", isTooLarge: true } as const;
const upTo = (count: number, ...without: number[]) =>
  Array.from({ length: count }, (_, n) => n).filter((n) => !without.includes(n));
/** The calls that have a record of these get this reply; all others are answered. */
const on =
  (isBad: (record: number) => boolean, reply: ReturnType<Service>): Service =>
  (records) =>
    records.some(isBad) ? reply : answered;
const naming =
  (isBad: (record: number) => boolean, type = "string_type"): Service =>
  (records) => {
    const details = records.flatMap((n, i) => (isBad(n) ? [{ loc: ["records", i, "city"], type }] : []));
    return details.length > 0 ? response(422, { details }) : answered;
  };
const even = (n: number) => n % 2 === 0;
/** True for the records of every second batch of four. */
const ofEvenBatches = (n: number) => even(Math.floor(n / 4));

interface Expected {
  readonly sizes?: readonly number[];
  readonly answered?: readonly number[];
  readonly rejected?: readonly number[];
  readonly setAside?: readonly number[];
  readonly stop?: string;
}

test.each<[string, number, Service, Expected, Parameters<typeof drive>[2]?]>([
  ["records are sent in batches of equal size", 10, () => answered, { sizes: [4, 4, 2], answered: upTo(10) }],
  ["nothing is sent without records", 0, () => answered, { sizes: [] }],
  [
    "named records are rejected, and the others are sent again",
    12,
    naming((n) => n === 1 || n === 6),
    { sizes: [4, 3, 4, 3, 4], answered: upTo(12, 1, 6), rejected: [1, 6] },
  ],
  [
    "an unnamed record is found by halving",
    16,
    on((n) => n === 5, response(400)),
    { sizes: [8, 4, 4, 2, 1, 1, 2, 8], answered: upTo(16, 5), rejected: [5] },
    { batchSize: 8 },
  ],
  [
    "batches of rejected records stop the job as a wrong mapping",
    400,
    naming(() => true),
    { sizes: [4, 4, 4], rejected: upTo(12), stop: "similar_failures" },
  ],
  [
    "so do batches of unnamed ones",
    400,
    () => response(422),
    { rejected: upTo(12), stop: "similar_failures" },
  ],
  [
    "rejected batches with others between them don't",
    24,
    naming(ofEvenBatches),
    { rejected: upTo(24).filter(ofEvenBatches) },
  ],
  [
    "batches rejected for different reasons do not",
    16,
    (records) => naming(() => true, records.some(ofEvenBatches) ? "string_type" : "list_type")(records, 0),
    { rejected: upTo(16) },
  ],
  [
    "a few rejected records in each batch don't",
    24,
    naming((n) => n % 4 === 0),
    { rejected: [0, 4, 8, 12, 16, 20] },
  ],
  [
    "a call without an answer is made once more",
    8,
    (_, i) => (i === 0 ? response(500) : answered),
    { sizes: [4, 4, 4], answered: upTo(8) },
  ],
  [
    "without an answer to the second call, records stay due",
    8,
    on((n) => n === 0, failure(true, "RESET")),
    { sizes: [4, 4, 4], answered: [4, 5, 6, 7], setAside: upTo(4) },
  ],
  [
    "five batches without an answer stop the job",
    200,
    () => unreadable,
    { setAside: upTo(20), stop: "service_failing" },
  ],
  [
    "such batches with others between them don't",
    48,
    on(ofEvenBatches, response(500)),
    { setAside: upTo(48).filter(ofEvenBatches) },
  ],
  [
    "an answer without any result is none",
    200,
    (records) => ({ omits: records }),
    { stop: "service_failing" },
  ],
  [
    "three batches without most results stop the job, and reject nobody",
    200,
    (records) => ({ omits: records.slice(1) }),
    { rejected: [], stop: "similar_failures" },
    { batchSize: 8 },
  ],
  [
    "an omitted record is sent once more, at once",
    8,
    (_, i) => ({ omits: i === 0 ? [1] : [] }),
    { sizes: [4, 1, 4], answered: upTo(8) },
  ],
  [
    "a record that is omitted twice is rejected",
    8,
    () => ({ omits: [2] }),
    { sizes: [4, 1, 4], answered: upTo(8, 2), rejected: [2] },
  ],
  [
    "a too large request is halved for the rest of the run",
    64,
    (records) => (records.length > 10 ? response(413) : answered),
    { sizes: [40, 20, 10, 10, 10, 10, 10, 10, 4], answered: upTo(64) },
    { batchSize: 40 },
  ],
  [
    "a record that is too large on its own is rejected",
    8,
    on((n) => n === 2, response(413)),
    { answered: upTo(8, 2), rejected: [2] },
  ],
  [
    "a too large answer is asked for record by record, to reject the one that is to blame",
    40,
    on((n) => n === 2, tooLarge),
    { sizes: [20, ...Array<number>(20).fill(1), 10, 10], answered: upTo(40, 2), rejected: [2] },
    { batchSize: 20 },
  ],
  ["nothing is rejected while nothing else is answered", 1, () => tooLarge, { sizes: [1, 1], setAside: [0] }],
  [
    "after a 402 as many records are sent as the plan covers",
    100,
    (_, i) => (i === 2 ? response(402, { records_remaining: 3 }) : i > 3 ? response(402) : answered),
    { sizes: [4, 4, 4, 3, 1], answered: upTo(11), stop: "credits" },
  ],
  [
    "a 402 that states nothing ends it",
    100,
    (_, i) => (i > 1 ? response(402) : answered),
    { sizes: [4, 4, 4], answered: upTo(8), stop: "credits" },
  ],
  [
    "a 429 is tried until it is answered",
    4,
    (_, i) => (i < 40 ? response(429) : answered),
    { answered: upTo(4) },
  ],
  [
    "so is a failure to connect",
    4,
    (_, i) => (i < 9 ? failure(false, "X") : answered),
    { answered: upTo(4) },
  ],
  [
    "an answer that broke off beyond all that ever came through makes batches smaller",
    24,
    (_, i) => (i === 1 ? failure(true, "RESET", 1001) : answered),
    { sizes: [8, 8, 4, 4, 4, 4], answered: upTo(24) },
    { batchSize: 8 },
  ],
  [
    "one that broke off earlier, or because of a signal, doesn't",
    32,
    (_, i) => (i === 1 ? failure(true, "RESET", 1) : i === 3 ? failure(true, "ABANDONED", 1001) : answered),
    { sizes: [8, 8, 8, 8, 8, 8], answered: upTo(32) },
    { batchSize: 8 },
  ],
  ["a batch is not sent again after a 408", 4, () => response(408), { sizes: [4], setAside: upTo(4) }],
  ["nor after thirty 503s", 4, () => response(503), { sizes: Array(30).fill(4), setAside: upTo(4) }],
  [
    "a fault outside the records stops the job",
    8,
    () => response(422, { details: [{ loc: ["body", "return_fields"], type: "enum" }] }),
    { sizes: [4], stop: "request_refused" },
  ],
  ["so does a 403", 8, () => response(403), { sizes: [4], stop: "forbidden" }],
  ["a redirect stops the run", 8, () => response(302), { sizes: [4], stop: "redirected" }],
  ["no input is read ahead of rejected calls", 80, (_, i) => (i < 40 ? response(503) : answered), {}],
])("%s", async (_title, count, service, expected, options) => {
  const { calls, stop, ...run } = await drive(service, count, options);
  const { sizes = calls.map(({ length }) => length), ...lists } = expected;
  expect({ ...run, sizes: calls.map(({ length }) => length), stop }).toMatchObject({
    stop: null,
    ...lists,
    sizes,
  });
  const came = [...run.answered, ...run.rejected, ...run.setAside].toSorted((a, b) => a - b);
  // A job that was stopped leaves the others due.
  expect(came).toEqual(stop === null ? upTo(count) : came.slice(0, new Set(came).size));
});

test("at most 64 calls look for the rejected records of a batch; the rest is set aside", async () => {
  const run = await drive(on(even, response(422)), 200, { batchSize: 200 });
  expect([run.calls.length, run.stop]).toEqual([64, null]);
  expect(run.rejected.every(even)).toBe(true);
  expect(run.setAside.length).toBeGreaterThan(0);
});

test("a batch is cut to what a budget grants; one that grants nothing is asked again, alone, then ends it", async () => {
  const grants = [3, 1, 4, 0, 2, 0];
  const run = await drive(() => answered, 40, { grant: (n) => Math.min(n, grants.shift() ?? 0) });
  expect(run.calls).toEqual([[0, 1, 2], [3], [4, 5, 6, 7], [8, 9]]);
  expect(run.stop).toBe("budget");
});

test("calls that may be billed are in the ledger as such, with what earlier ones may have billed", async () => {
  const replies = [response(429), response(502), failure(false, "X"), failure(true, "RESET", 10)];
  const { attempts } = await drive(() => replies.shift() ?? answered, 4);
  expect(
    attempts.map((one) => [one.httpStatus, one.isSent, one.possiblyBilled, one.possiblyBilledTwice]),
  ).toEqual([
    [429, true, false, 0],
    [502, true, true, 0],
    [null, false, false, 0],
    [200, true, true, 4],
  ]);
});

/** Reply of any kind; an answer omits records by the bits of a number. */
const anyReply = fc.oneof(
  { weight: 4, arbitrary: fc.nat({ max: 1023 }) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...[400, 402, 408, 413, 422, 429, 500, 502, 503, 504].map((status) => response(status)),
      response(402, { records_remaining: 3 }),
      response(422, { details: [{ loc: ["records", 0, "city"], type: "string_type" }] }),
      failure(true, "UND_ERR_SOCKET"),
      failure(true, "UND_ERR_SOCKET", 2000),
      failure(false, "ECONNREFUSED"),
      unreadable,
      tooLarge,
    ),
  },
);

test("whatever the service does, every record has one outcome, and is billed in vain twice at most", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyReply, { maxLength: 60 }),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 9 }),
      fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 10 }),
      async (replies, count, batchSize, grants) => {
        const service: Service = (records) => {
          const reply = replies.shift() ?? answered;
          if (typeof reply !== "number") return reply;
          return { omits: records.filter((_, i) => (reply >> (i % 10)) % 2 === 1) };
        };
        const grant = (records: number) => Math.min(records, grants.shift() ?? records);
        const run = await drive(service, count, { batchSize, grant });
        const came = [...run.answered, ...run.rejected, ...run.setAside];
        expect(new Set(came).size).toBe(came.length);
        expect(came.length).toBeGreaterThanOrEqual(run.stop === null ? count : 0);
        expect(Math.max(0, ...run.billedInVain)).toBeLessThanOrEqual(2);
      },
    ),
    { numRuns: 500 },
  );
});
