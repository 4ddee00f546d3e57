import type { ErrorShape, Outcome, Refusal, Results } from "../http/outcome.ts";
import { listOf, textsOf } from "../http/result-list.ts";
import { SOUND_WIRE, type Wire } from "../http/send.ts";
import type { FiredFault } from "./decide.ts";
import type { LooseRecord } from "./fault.ts";

/** Sum of the milliseconds that faults wait before anything else. */
export function delayOf(fired: readonly FiredFault[]): number {
  return fired.reduce(
    (sum, { fault, value }) => sum + (fault.stage === "delay" ? fault.delayMs(value) : 0),
    0,
  );
}

/** True if a fault breaks the connection before the request is executed. */
export function breaksConnection(fired: readonly FiredFault[]): boolean {
  return fired.some(({ fault }) => fault.stage === "connection");
}

/** Error answer and name of the first fault that refuses the request. */
export function refusalOf(
  fired: readonly FiredFault[],
  records: readonly unknown[],
): { readonly name: string; readonly refusal: Refusal } | null {
  for (const { name, fault, value, dice } of fired) {
    const refusal = fault.stage === "refusal" ? fault.refuse(value, records, dice) : null;
    if (refusal) return { name, refusal };
  }
  return null;
}

/** Names of the faults that affected an outcome; `refusedBy` is the one that refused. */
export function namesOf(
  fired: readonly FiredFault[],
  outcome: Outcome,
  refusedBy: string | null,
): readonly string[] {
  const applied = fired.filter(({ name, fault: { stage } }) => {
    if (stage === "delay" || stage === "connection") return true;
    if (stage === "refusal") return name === refusedBy;
    return (stage === "shape") === (outcome.kind === "refusal");
  });
  return applied.map(({ name }) => name);
}

/** Applies every fault that changes results. */
export function distort(fired: readonly FiredFault[], results: Results): Results {
  if (!fired.some(({ fault }) => fault.stage === "results" || fault.stage === "record")) return results;
  let texts = textsOf(results.results);
  for (const { fault, dice } of fired) {
    if (texts.length === 0) break;
    if (fault.stage === "results") texts = fault.rearrange(texts, dice);
    if (fault.stage === "record") {
      const sure = dice.below(texts.length);
      texts = texts.map((text, i) => {
        if (i !== sure && !dice.chance(fault.share)) return text;
        // PIDs of searches are texts.
        if (!text.startsWith("{")) return text;
        // The routes wrote it, and it is an object.
        const record = JSON.parse(text) as LooseRecord;
        fault.distort(record, dice);
        return JSON.stringify(record);
      });
    }
  }
  return { ...results, results: listOf(texts) };
}

/** Damage to the answer in transit. */
export function wireOf(fired: readonly FiredFault[]): Wire {
  return fired.reduce(
    (wire, { fault, value }) => (fault.stage === "wire" ? { ...wire, ...fault.damage(value) } : wire),
    SOUND_WIRE,
  );
}

/** Shape of an error answer. */
export function shapeOf(fired: readonly FiredFault[]): ErrorShape {
  return fired.reduce<ErrorShape>(
    (sum, { fault }) => (fault.stage === "shape" ? { ...sum, ...fault.shape } : sum),
    { form: "current", deprecatedFields: false },
  );
}
