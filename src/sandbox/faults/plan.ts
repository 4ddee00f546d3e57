import { z } from "zod";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { FAULTS } from "./catalog.ts";

/** A plan as JSON, as the controls accept it. */
export const faultPlanSchema = z.array(
  z.strictObject({
    /** A name of the catalog. */
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

/** Faults in force. */
export type FaultPlan = z.output<typeof faultPlanSchema>;
/** A fault and the requests that it hits. */
export type FaultRule = FaultPlan[number];

const RULE =
  /^(?<fault>\w+)(?:=(?<value>[^:@#]*))?(?::(?<rate>\d*\.?\d+))?(?:@(?<endpoint>[^#]+))?(?:#(?<from>\d+)(?<range>-(?<to>\d+)?)?)?$/;

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
  return {
    fault,
    rate: Number(rate),
    value,
    endpoint,
    from: from === undefined ? undefined : Number(from),
    // `#5` is one request, `#5-` that request and all later ones.
    to:
      to === undefined ? (range === undefined && from !== undefined ? Number(from) : undefined) : Number(to),
  };
}

/** Reads a plan such as `429:0.1,cut_body:0.05@enrich,slow=2000#1-3`; throws with every problem at once. */
export function parseFaults(text: string): FaultPlan {
  const rules = text
    .split(",")
    .map((rule) => rule.trim())
    .filter((rule) => rule !== "")
    .map(readRule);
  const problems = rules.filter((rule) => "message" in rule);
  if (problems.length > 0) {
    throw new FixConfigurationError("bad_faults", "Invalid fault rules.", problems);
  }
  return rules.filter((rule) => "fault" in rule);
}
