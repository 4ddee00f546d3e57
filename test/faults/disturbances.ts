import { sized } from "../support/test-size.ts";
import { type Aftermath, FAULT_CASES, type FaultCase, RATES, rulesAt } from "./fault-cases.ts";
import type { Disturbance } from "./fault-matrix.ts";

/** A disturbance; names a test. */
export interface NamedDisturbance extends Disturbance {
  readonly name: string;
  /** Fault that must hit a request. */
  readonly mustHit?: string;
}

const EVERYTHING: readonly Aftermath[] = ["values", "rejects"];

/** One fault only, at each tested rate; hits at least once. */
export function alone(fault: FaultCase): readonly NamedDisturbance[] {
  return sized([0.1], [...RATES]).map((rate) => ({
    ...fault,
    name: `${fault.name} at ${rate * 100} %`,
    faults: `${rulesAt([fault], rate)},${fault.certain}`,
    mustHit: fault.name,
  }));
}

/** All faults of the sandbox, each at this rate. */
export function allFaults(rate: number): NamedDisturbance {
  const faults = rulesAt(FAULT_CASES, rate);
  return { name: `all faults at ${rate * 100} %`, faults, aftermath: EVERYTHING, mayBillTwice: true };
}

const nothing = { aftermath: ["nothing"], mayBillTwice: false } as const;

/** Events at a service in the middle of a run. */
export const IN_THE_MIDDLE: readonly NamedDisturbance[] = [
  {
    ...nothing,
    name: "a service that charges and answers too late",
    faults: "slow=900:0.1,slow_body=900:0.1",
    readTimeoutMs: 300,
    mayBillTwice: true,
  },
  {
    ...nothing,
    name: "a plan that is used up (402) in the middle",
    faults: "",
    before: async (world) => void (await world.control("/capacity", { records: 130 })),
  },
  {
    ...nothing,
    name: "credits that are used up (402) in the middle",
    faults: "",
    before: async (world) =>
      void (await world.control("/capacity", { records: 95, code: "insufficient_credits" })),
  },
  { ...nothing, name: "a key that is revoked (401) in the middle", faults: "revoked@enrich#9-40" },
  { ...nothing, name: "a service that is away (503) in the middle", faults: "503@validate_emails#8-80" },
];
