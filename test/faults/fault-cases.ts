import { FAULTS } from "../../src/sandbox/faults/catalog.ts";

/** What a fault leaves behind once it is over and everything due has been asked again. */
export type Aftermath =
  /** Nothing: the tables are those of an undisturbed run. */
  | "nothing"
  /** Values as the service sent them, until it is asked again. */
  | "values"
  /** Rejected records, which nothing sends again. */
  | "rejects";

/** One fault of the matrix. */
export interface FaultCase {
  readonly name: string;
  /** As the sandbox takes it, without rate and endpoint. */
  readonly rule: string;
  /** The only endpoint that it concerns; null for all. */
  readonly endpoint: string | null;
  readonly aftermath: readonly Aftermath[];
  /** The service may charge without an answer in our hands, or for a record that it leaves out. */
  readonly mayBillTwice: boolean;
}

/** Faults that leave something behind; all others leave nothing. */
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

/** Values with which a fault does more than nothing, in little time. */
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
 * Faults of one endpoint alone: the interface names 402 for enrich only. Elsewhere it would end validation early, and the
 * next job then asks with addresses that aren't known to be invalid yet.
 */
const ENDPOINTS: Readonly<Record<string, string>> = { "402": "enrich", "402_credits": "enrich" };

/** Charged by the sandbox although no answer arrives; `missing`: although a result does not. */
const BILLED_UNANSWERED: ReadonlySet<string> = new Set([
  "cut_body",
  "truncated_json",
  "reply_lost",
  "missing",
]);

function caseOf(name: string): FaultCase {
  const value = VALUES[name];
  return {
    name,
    rule: value === undefined ? name : `${name}=${value}`,
    endpoint: ENDPOINTS[name] ?? null,
    aftermath: [AFTERMATHS[name] ?? "nothing"],
    mayBillTwice: BILLED_UNANSWERED.has(name),
  };
}

/** Every fault that the sandbox knows. */
export const FAULT_CASES: readonly FaultCase[] = Object.keys(FAULTS).map(caseOf);

/** The rates of the matrix. */
export const RATES = [0.01, 0.1, 0.5] as const;

/** The rules of some faults at one rate. */
export function rulesAt(cases: readonly FaultCase[], rate: number): string {
  return cases
    .map(({ rule, endpoint }) => `${rule}:${rate}${endpoint === null ? "" : `@${endpoint}`}`)
    .join(",");
}
