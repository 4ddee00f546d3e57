import { FAULTS } from "../../packages/sandbox/src/faults/catalog.ts";

/** Remains of a fault after it has ended and everything due was requested again. */
export type Aftermath =
  /** Nothing: the tables equal those of an undisturbed run. */
  | "nothing"
  /** Values as the service sent them, until the next request. */
  | "values"
  /** Rejected records, which are not sent again. */
  | "rejects";

/** One fault of the matrix. */
export type FaultCase = ReturnType<typeof caseOf>;

/** Faults with remains; all others leave nothing. */
const AFTERMATHS: Readonly<Record<string, Aftermath>> = {
  unknown_fields: "values",
  wrong_types: "values",
  wrong_elements: "values",
  nul_text: "values",
  lone_surrogates: "values",
  huge_integers: "values",
  long_decimals: "values",
  missing: "rejects",
  string_too_long: "rejects",
  poison: "rejects",
  poison_blind: "rejects",
};

/** Values that have an effect but take little time. */
const VALUES: Readonly<Record<string, string>> = {
  "402": "17",
  "413": "7",
  "429": "0",
  "429_date": "0",
  "402_credits": "9",
  poison: "Mar",
  poison_blind: "Mar",
  poison_500: "Mar",
  slow: "20",
  slow_body: "20",
};

/**
 * Faults of one endpoint only: the interface specifies 402 for enrich only. Elsewhere it would end validation early, and the
 * next job would send addresses not yet known to be invalid.
 */
const ENDPOINTS: Readonly<Record<string, string>> = { "402": "enrich", "402_credits": "enrich" };

/** Billed by the sandbox without an answer; `missing`: without a result. */
const BILLED_UNANSWERED: ReadonlySet<string> = new Set([
  "cut_body",
  "truncated_json",
  "reply_lost",
  "missing",
]);

/**
 * Request to enrich on which the fault has an effect, if it had none before: the first has most records and is refused as
 * too large; the twelfth has a small batch and is answered.
 */
function certainRequest(name: string): number {
  return FAULTS[name]?.stage === "shape" || name.startsWith("poison") ? 1 : 12;
}

function caseOf(name: string) {
  const value = VALUES[name];
  const rule = value === undefined ? name : `${name}=${value}`;
  return {
    name,
    /** As written for the sandbox, without rate and endpoint. */
    rule,
    /** The only affected endpoint; null for all. */
    endpoint: ENDPOINTS[name] ?? null,
    /** Rule that hits one request for certain: others hit by chance, and which records they find depends on timing. */
    certain: `${rule}@enrich#${certainRequest(name)}`,
    aftermath: [AFTERMATHS[name] ?? "nothing"],
    /** The service may bill without an answer received, or for a missing record. */
    mayBillTwice: BILLED_UNANSWERED.has(name),
  };
}

/** Every fault of the sandbox. */
export const FAULT_CASES: readonly FaultCase[] = Object.keys(FAULTS).map(caseOf);

/** Rates of the matrix. */
export const RATES = [0.01, 0.1, 0.5] as const;

/** Rules of some faults at one rate. */
export function rulesAt(cases: readonly FaultCase[], rate: number): string {
  return cases
    .map(({ rule, endpoint }) => `${rule}:${rate}${endpoint === null ? "" : `@${endpoint}`}`)
    .join(",");
}
