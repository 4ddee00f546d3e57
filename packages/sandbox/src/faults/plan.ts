import { z } from "zod";
import { type Dice, throwDice } from "../population/hash.ts";
import { type Problem, SandboxError } from "../sandbox-error.ts";
import { type Fault, FAULTS, type FaultValue, type LooseRecord } from "./catalog.ts";

/** A plan as JSON, as the controls accept it. */
export const faultPlanSchema = z.array(
  z.strictObject({
    fault: z.string().refine((name) => name in FAULTS, { error: "is not a known fault" }),
    /** Share of the requests. */
    rate: z.number().min(0).max(1).default(1),
    /** Seconds, milliseconds, a number of records or a text, by the fault. */
    value: z.coerce.string().optional(),
    /** Only requests to this path (`/v2/enrich`) or its end (`enrich`), maybe with a method (`GET results`). */
    endpoint: z.string().optional(),
    /** First and last request that it may hit, counted per rule since the plan was set. */
    from: z.int().min(1).optional(),
    to: z.int().min(1).optional(),
    /** Seed of its chances; the sandbox's by default. */
    seed: z.int().optional(),
  }),
);

/** Faults in force, with the requests that they hit. */
export type FaultPlan = z.output<typeof faultPlanSchema>;
export type FaultRule = FaultPlan[number];

const RULE =
  /^(?<fault>\w+)(?:=(?<value>[^:@#]*))?(?::(?<rate>\d*\.?\d+))?(?:@(?<endpoint>[^#]+))?(?:#(?<from>\d+)(?<range>-(?<to>\d+)?)?)?$/;

const numberOf = (digits: string | undefined) => (digits === undefined ? undefined : Number(digits));

function readRule(text: string): FaultRule | Problem {
  const groups = RULE.exec(text)?.groups;
  const problem = (message: string): Problem => ({
    path: `--faults ${text}`,
    message,
    hint: "Write NAME[=VALUE][:RATE][@ENDPOINT][#FROM[-TO]], for example 429=2:0.1@enrich#1-20.",
  });
  if (!groups) return problem("Not a fault rule.");
  const { fault = "", value, rate = "1", endpoint, from, range, to } = groups;
  if (!(fault in FAULTS))
    return problem(`There is no fault ${fault}; there are ${Object.keys(FAULTS).toSorted().join(", ")}.`);
  if (Number(rate) > 1) return problem("The rate must be between 0 and 1.");
  // `#5` is one request, `#5-` that request and all later ones.
  const last = range === undefined ? from : to;
  return { fault, rate: Number(rate), value, endpoint, from: numberOf(from), to: numberOf(last) };
}

/** Reads a plan such as `429:0.1,cut_body:0.05@enrich,slow=2000#1-3`; throws with every problem at once. */
export function parseFaults(text: string): FaultPlan {
  const rules = text
    .split(",")
    .map((rule) => rule.trim())
    .filter((rule) => rule !== "")
    .map(readRule);
  const problems = rules.filter((rule) => "message" in rule);
  if (problems.length > 0) throw new SandboxError("Invalid fault rules.", problems);
  return rules.filter((rule) => "fault" in rule);
}

export interface FiredFault {
  readonly name: string;
  readonly fault: Fault;
  readonly value: FaultValue;
  readonly dice: Dice;
}

function concerns({ endpoint }: FaultRule, method: string, path: string): boolean {
  if (endpoint === undefined) return true;
  const [, ofMethod, ofPath = ""] = /^(?:(GET|POST) )?(.*)$/.exec(endpoint) ?? [];
  if (ofMethod !== undefined && ofMethod !== method) return false;
  return path === ofPath || path.endsWith(`/${ofPath}`);
}

export type Faults = ReturnType<typeof createFaults>;

/** Applies a plan. A rule's chances depend on seed, rule and its number of requests, so runs are repeatable. */
export function createFaults(initial: FaultPlan, seed: number) {
  let plan = initial;
  let seen: number[] = [];
  return {
    /** The faults that hit the next request to a path (with `{…}` for an ID), in the plan's order. */
    fire(method: string, path: string): readonly FiredFault[] {
      return plan.flatMap((rule, i) => {
        const fault = FAULTS[rule.fault];
        if (!fault || !concerns(rule, method, path)) return [];
        const number = (seen[i] = (seen[i] ?? 0) + 1);
        if (number < (rule.from ?? 1) || number > (rule.to ?? Number.POSITIVE_INFINITY)) return [];
        const dice = throwDice(rule.seed ?? seed, number, i);
        return dice.chance(rule.rate) ? [{ name: rule.fault, fault, value: rule.value ?? null, dice }] : [];
      });
    },
    /** Replaces the plan; its rules count requests from 1 again. */
    set(next: FaultPlan): void {
      plan = next;
      seen = [];
    },
    current: () => plan,
  };
}

/** Applies every fault that changes results (JSON texts). */
export function distort(fired: readonly FiredFault[], sound: readonly string[]): readonly string[] {
  let results = sound;
  for (const { fault, dice } of fired) {
    if (results.length === 0) break;
    if (fault.stage === "results") results = fault.rearrange(results, dice);
    if (fault.stage !== "record") continue;
    const sure = dice.below(results.length);
    results = results.map((text, i) => {
      // PIDs of searches are texts.
      if ((i !== sure && !dice.chance(fault.share)) || !text.startsWith("{")) return text;
      const record: LooseRecord = JSON.parse(text);
      fault.distort(record, dice);
      return JSON.stringify(record);
    });
  }
  return results;
}
