import type { ErrorShape, Refusal } from "../http/outcome.ts";
import type { Wire } from "../http/send.ts";
import type { Dice } from "./dice.ts";

/** Optional number or text of a fault (`slow=2000`). */
export type FaultValue = string | null;

/** A result that a fault changes: a parsed JSON object. */
export type LooseRecord = Record<string, unknown>;

/** A fault that can be switched on; its stage decides its effect. */
export type Fault = { readonly doc: string } & (
  | { readonly stage: "delay"; delayMs(value: FaultValue): number }
  /** Answers an error instead of the request's results; nothing is billed. Null lets the request pass. */
  | {
      readonly stage: "refusal";
      refuse(value: FaultValue, records: readonly unknown[], dice: Dice): Refusal | null;
    }
  /** Changes the list of results (JSON texts). */
  | { readonly stage: "results"; rearrange(results: readonly string[], dice: Dice): readonly string[] }
  /** Changes one result; applied to a `share` of the results, at least one. */
  | { readonly stage: "record"; readonly share: number; distort(record: LooseRecord, dice: Dice): void }
  /** Damages the answer in transit; the request was executed and billed. */
  | { readonly stage: "wire"; damage(value: FaultValue): Partial<Wire> }
  /** Breaks the connection before the request is executed. */
  | { readonly stage: "connection" }
  /** Changes the shape of error answers. */
  | { readonly stage: "shape"; readonly shape: Partial<ErrorShape> }
);

/** Converts the value to a number, or returns `otherwise`. */
export function numberOr(value: FaultValue, otherwise: number): number {
  const number = Number(value ?? Number.NaN);
  return Number.isFinite(number) ? number : otherwise;
}
