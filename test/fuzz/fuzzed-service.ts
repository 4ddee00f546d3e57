import type { ServerResponse } from "node:http";
import type { Clock } from "../../src/clock.ts";
import { isJsonObject } from "../../src/schemas/flatten.ts";
import { forward, startServer } from "../support/http-proxy.ts";
import { type Random, seededRandom } from "../support/seeded-random.ts";
import { type AnswerParts, textOf } from "./answer-mutations.ts";
import { mutateAnswer } from "./mutate-answer.ts";
import { partsOf } from "./real-answers.ts";
import { isSame, type Reading, readWhole } from "./reference-reading.ts";
import { HARMLESS_REPLIES, REPLY_MUTATIONS } from "./reply-mutations.ts";

/** Records per call: small batches make many answers of few records. */
const MAX_RECORDS = 6;

function idOf(value: unknown): string {
  if (!isJsonObject(value)) return String(value);
  return String(value["record_id"] ?? value["email_address"]);
}

/** Results of an answer by id, from one whole parse; none for an id with several. */
function claimsOf(results: readonly unknown[]): ReadonlyMap<string, unknown> {
  const claims = new Map<string, unknown>();
  const several = new Set<string>();
  for (const result of results) {
    const id = idOf(result);
    if (claims.has(id)) several.add(id);
    claims.set(id, result);
  }
  for (const id of several) claims.delete(id);
  return claims;
}

/** True for a wrong but plausible time, which makes an answer look older or newer than others of its content. */
function isShifted(reading: Reading | null, { completedAt }: AnswerParts, nowMs: number): boolean {
  if (reading === null || reading.completedAt === JSON.parse(completedAt)) return false;
  return Math.abs(Date.parse(String(reading.completedAt)) - nowMs) < 3 * 31_557_600_000;
}

/** Starts a proxy in front of a sandbox that damages answers; they have the given clock's time. */
export async function startFuzzedService(sandboxUrl: string, seed: number, clock: Pick<Clock, "now">) {
  let sound = new Set<string>();
  let odd = new Set<string>();
  let mutated = 0;
  let number = 0;
  const applied = new Set<string>();
  const service = { rate: 0 };

  /** Records an answer's content for each record. */
  function note(path: string, parts: AnswerParts, ids: readonly string[], reading: Reading | null): void {
    const read = reading?.results ?? null;
    const claims = claimsOf(read ?? []);
    for (const [i, id] of ids.entries()) {
      const key = `${path} ${id}`;
      const whole: unknown = JSON.parse(parts.results[i] ?? "null");
      if (isSame(claims.get(id), whole)) sound.add(key);
      else if (read !== null) odd.add(key);
    }
  }

  async function answer(
    response: ServerResponse,
    path: string,
    ids: readonly string[],
    parts: AnswerParts,
    random: Random,
  ): Promise<void> {
    const body = Buffer.from(textOf(parts));
    const answerSoundly = () => {
      note(path, parts, ids, readWhole({ contentEncoding: null, bytes: body }));
      response.writeHead(200, { "content-type": "application/json" }).end(body);
    };
    if (!random.chance(service.rate)) return answerSoundly();
    mutated += 1;
    if (random.chance(0.25)) {
      const isHarmless = random.chance(0.4);
      const [name, reply] = random.pick(Object.entries(isHarmless ? HARMLESS_REPLIES : REPLY_MUTATIONS));
      applied.add(name);
      if (isHarmless) note(path, parts, ids, readWhole({ contentEncoding: null, bytes: body }));
      else for (const id of ids) odd.add(`${path} ${id}`);
      await reply(response, body, random);
      return;
    }
    const wire = mutateAnswer(parts, random);
    const reading = readWhole(wire);
    if (isShifted(reading, parts, clock.now())) return answerSoundly();
    for (const name of wire.mutations) applied.add(name);
    note(path, parts, ids, reading);
    const encoding =
      wire.contentEncoding === null
        ? {}
        : { "content-encoding": Buffer.from(wire.contentEncoding).toString("latin1") };
    response.writeHead(200, { "content-type": "application/json", ...encoding }).end(wire.bytes);
  }

  const { url, close } = await startServer(async (request, response, asked) => {
    // The free usage report, which a run reads first.
    if (request.method === "GET") return response.writeHead(404).end("{}");
    const random = seededRandom(seed, (number += 1));
    // The request's body is the program's own.
    const { records } = JSON.parse(asked.toString("utf8")) as { records: readonly unknown[] };
    if (records.length > MAX_RECORDS) return response.writeHead(413).end("{}");
    const { status, body } = await forward(sandboxUrl, request, asked);
    const text = String(body);
    if (status !== 200) {
      return response.writeHead(status, { "content-type": "application/json" }).end(text);
    }
    const completedAt = JSON.stringify(new Date(clock.now()).toISOString());
    const parts = { ...partsOf(text), completedAt };
    return answer(response, request.url ?? "", records.map(idOf), parts, random);
  });
  return {
    url,
    close,
    /** Share of answers to damage from now on. */
    set rate(rate: number) {
      service.rate = rate;
    },
    /** Names of all mutations applied so far. */
    applied,
    /** Records with only sound answers since the previous call, at least one, as `/path id`; and the number of damaged answers. */
    take() {
      const served = { sound: [...sound].filter((key) => !odd.has(key)), mutated };
      [sound, odd, mutated] = [new Set(), new Set(), 0];
      return served;
    },
  };
}
