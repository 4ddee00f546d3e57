import { z } from "zod";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { FAULTS } from "./catalog.ts";

/** When one fault happens. */
export interface FaultRule {
  /** A name of the catalog. */
  readonly fault: string;
  /** Share of the requests, 0 to 1. */
  readonly rate: number;
  /** What the fault takes: seconds, milliseconds, a number of records, a text. */
  readonly value?: string | undefined;
  /** Only requests to this path (`/v2/enrich`), which may be shortened to its end (`enrich`). */
  readonly endpoint?: string | undefined;
  /** First request (from 1, counted per rule since the plan was set) that it may hit. */
  readonly from?: number | undefined;
  /** Last request that it may hit. */
  readonly to?: number | undefined;
  /** Seed of its chances; the sandbox's own where it is left out. */
  readonly seed?: number | undefined;
}

/** The faults that are switched on. */
export type FaultPlan = readonly FaultRule[];

/** A plan as JSON, as the admin interface takes it. */
export const faultPlanSchema = z.array(
  z.strictObject({
    fault: z.string().refine((name) => name in FAULTS, { error: "is not a fault of the catalog" }),
    rate: z.number().min(0).max(1).default(1),
    value: z.coerce.string().optional(),
    endpoint: z.string().optional(),
    from: z.int().min(1).optional(),
    to: z.int().min(1).optional(),
    seed: z.int().optional(),
  }),
);

const RULE =
  /^(?<fault>\w+)(?:=(?<value>[^:@#]*))?(?::(?<rate>\d*\.?\d+))?(?:@(?<endpoint>[^#]+))?(?:#(?<from>\d+)(?<range>-(?<to>\d+)?)?)?$/;

function readRule(text: string): FaultRule | Problem {
  const groups = RULE.exec(text)?.groups;
  const problem = (message: string): Problem => ({
    path: `--faults ${text}`,
    message,
    hint: "Write NAME[=VALUE][:RATE][@ENDPOINT][#FROM[-TO]], for example 429=2:0.1@enrich#1-20.",
  });
  if (!groups) return problem("This is not a fault rule.");
  const { fault = "", value, rate = "1", endpoint, from, range, to } = groups;
  if (!(fault in FAULTS))
    return problem(`There is no fault ${fault}; there are ${Object.keys(FAULTS).toSorted().join(", ")}.`);
  if (Number(rate) > 1) return problem("A rate lies between 0 and 1.");
  return {
    fault,
    rate: Number(rate),
    value,
    endpoint,
    from: from === undefined ? undefined : Number(from),
    // `#5` is that request alone, `#5-` everything from it on.
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
    throw new FixConfigurationError("bad_faults", "The faults can't be read.", problems);
  }
  return rules.filter((rule) => "fault" in rule);
}
