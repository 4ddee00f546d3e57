import type { Random } from "../support/seeded-random.ts";
import { type AnswerParts, ENVELOPE_MUTATIONS, LIST_MUTATIONS, textOf } from "./answer-mutations.ts";
import { BYTE_MUTATIONS, ENCODING_MUTATIONS, type WireBody } from "./byte-mutations.ts";
import { RESULT_MUTATIONS } from "./result-mutations.ts";

/** A damaged answer. */
export interface MutatedAnswer extends WireBody {
  /** Names of the applied mutations, in order. */
  readonly mutations: readonly string[];
  /** The body before it was compressed. */
  readonly plain: Buffer;
}

/** Names of all mutations: a long enough run applies each of them. */
export const ALL_MUTATIONS: readonly string[] = [
  RESULT_MUTATIONS,
  LIST_MUTATIONS,
  ENVELOPE_MUTATIONS,
  BYTE_MUTATIONS,
  ENCODING_MUTATIONS,
].flatMap((mutations) => Object.keys(mutations));

/** Damages an answer in one to four ways on any level; depends only on `random`. */
export function mutateAnswer(parts: AnswerParts, random: Random): MutatedAnswer {
  const done: string[] = [];
  const choose = <T>(share: number, mutations: Readonly<Record<string, T>>): T | null => {
    if (!random.chance(share)) return null;
    const [name, mutation] = random.pick(Object.entries(mutations));
    done.push(name);
    return mutation;
  };
  let results = parts.results;
  // Usually one result, sometimes several: results need neighbors.
  for (let again = results.length > 0; again; again = random.chance(0.3)) {
    const at = random.below(results.length);
    const change = choose(0.6, RESULT_MUTATIONS);
    if (change) results = results.with(at, change(results[at] ?? "{}", random));
  }
  if (results.length > 0) results = choose(0.15, LIST_MUTATIONS)?.(results, random) ?? results;
  const whole = { ...parts, results };
  const text = choose(results.length > 0 ? 0.15 : 0, ENVELOPE_MUTATIONS)?.(whole, random) ?? textOf(whole);
  const sound = Buffer.from(text, "utf8");
  const plain = choose(0.15, BYTE_MUTATIONS)?.(sound, random) ?? sound;
  const encode = choose(done.length === 0 ? 1 : 0.2, ENCODING_MUTATIONS) ?? ENCODING_MUTATIONS["plain"];
  const body = encode?.(plain, random) ?? { contentEncoding: null, bytes: plain };
  return { ...body, plain, mutations: done };
}
