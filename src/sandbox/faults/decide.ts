import { FAULTS } from "./catalog.ts";
import { type Dice, throwDice } from "./dice.ts";
import type { Fault, FaultValue } from "./fault.ts";
import type { FaultPlan, FaultRule } from "./plan.ts";

/** A fault that hits one request. */
export interface FiredFault {
  readonly name: string;
  readonly fault: Fault;
  readonly value: FaultValue;
  /** Source of the fault's random choices. */
  readonly dice: Dice;
}

/** The plan in force, and its counters. */
export interface Faults {
  /** The faults that hit the next request to a path (with `{…}` for an ID), in the plan's order. */
  fire(method: string, path: string): readonly FiredFault[];
  /** Replaces the plan; its rules count requests from 1 again. */
  set(plan: FaultPlan): void;
  /** Restores the initial plan and counts from 1 again. */
  reset(): void;
  readonly plan: FaultPlan;
}

function concerns({ endpoint }: FaultRule, method: string, path: string): boolean {
  if (endpoint === undefined) return true;
  const [, ofMethod, ofPath = ""] = /^(?:(GET|POST) )?(.*)$/.exec(endpoint) ?? [];
  if (ofMethod !== undefined && ofMethod !== method) return false;
  return path === ofPath || path.endsWith(`/${ofPath}`);
}

/** Applies a plan. A rule's chances depend on seed, rule and its number of requests, so runs are repeatable. */
export function createFaults(initial: FaultPlan, seed: number): Faults {
  let plan = initial;
  let seen = plan.map(() => 0);
  const set = (next: FaultPlan): void => {
    plan = next;
    seen = plan.map(() => 0);
  };
  return {
    fire(method, path) {
      const fired: FiredFault[] = [];
      for (const [i, rule] of plan.entries()) {
        const fault = FAULTS[rule.fault];
        if (!fault || !concerns(rule, method, path)) continue;
        const number = (seen[i] ?? 0) + 1;
        seen[i] = number;
        const dice = throwDice(rule.seed ?? seed, number, i);
        if (number < (rule.from ?? 1) || number > (rule.to ?? Number.POSITIVE_INFINITY)) continue;
        if (dice.chance(rule.rate)) fired.push({ name: rule.fault, fault, value: rule.value ?? null, dice });
      }
      return fired;
    },
    set,
    reset: () => set(initial),
    get plan() {
      return plan;
    },
  };
}
