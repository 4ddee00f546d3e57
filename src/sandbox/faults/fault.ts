import type { ErrorShape, Refusal } from "../http/outcome.ts";
import type { Wire } from "../http/send.ts";
import type { Dice } from "./dice.ts";

/** A number or text that a fault may be given (`slow=2000`); null when it wasn't. */
export type FaultValue = string | null;

/** A result under a fault's hands: a parsed JSON object. */
export type LooseRecord = Record<string, unknown>;

/** A fault that can be switched on; what it does depends on the stage at which it steps in. */
export type Fault = { readonly doc: string } & (
  | { readonly stage: "delay"; delayMs(value: FaultValue): number }
  /** Answers an error instead of the request's results; nothing is billed. Null lets the request pass. */
  | {
      readonly stage: "refusal";
      refuse(value: FaultValue, records: readonly unknown[], dice: Dice): Refusal | null;
    }
  /** Changes the list of results (JSON texts). */
  | { readonly stage: "results"; rearrange(results: readonly string[], dice: Dice): readonly string[] }
  /** Changes one result; `share` of the results are, at least one. */
  | { readonly stage: "record"; readonly share: number; distort(record: LooseRecord, dice: Dice): void }
  /** Harms the answer on its way; the request was carried out and billed. */
  | { readonly stage: "wire"; damage(value: FaultValue): Partial<Wire> }
  /** Breaks the connection before the request is carried out. */
  | { readonly stage: "connection" }
  /** Gives error answers another shape. */
  | { readonly stage: "shape"; readonly shape: Partial<ErrorShape> }
);

/** The value as a number, or `otherwise` where it isn't one. */
export function numberOr(value: FaultValue, otherwise: number): number {
  const number = Number(value ?? Number.NaN);
  return Number.isFinite(number) ? number : otherwise;
}
