import { boolean, integer, json, numeric, oneOf, position, short, text, timestamptz, uuid } from "./field.ts";
import { table } from "./table.ts";

/** HTTP attempt as stored in the ledger. */
export interface Attempt {
  /** UUID, unique per attempt. */
  readonly callId: string;
  /** Method and path (`POST /v2/enrich`). */
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Completion time reported by the service, in UTC with microseconds; null for none. */
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  /** Null without a response. */
  readonly httpStatus: number | null;
  /** Number of calls that contained these records, including this one; 1 for the first. */
  readonly attempt: number;
  /** False if no connection was made, so that the service can't have received it. */
  readonly isSent: boolean;
  /** 0 if no connection was made. */
  readonly recordsSent: number;
  /** Results with `is_match` true; null without an answer. */
  readonly recordsMatched: number | null;
  /** Bytes as received (compressed). */
  readonly responseBytes: number;
  /** True if the service may have billed it, but no answer was received. */
  readonly possiblyBilled: boolean;
  /** Records that may have been billed by both this call and an earlier one without an answer. */
  readonly possiblyBilledTwice: number;
  /** Number of records that the answer omits, which may also have been billed. Absent for none. */
  readonly recordsLeftOut?: number;
  /** True if its row is a reservation whose charge is recorded by itself, which ends it. Absent for others. */
  readonly isOpen?: true;
  /** Code of an error; null without one. */
  readonly errorCode: string | null;
  /** Figures of a 402, by their name in the interface; null without any. */
  readonly errorDetails: Readonly<Record<string, number>> | null;
}

export const apiCall = table("api_call", {
  schema: "ops",
  doc: "Ledger: one row per attempt of a call; written before sending if the call may be billed.",
  key: ["call_id"],
  columns: {
    call_id: uuid("none", "The attempt."),
    run_id: text("none", "The run.", "required"),
    job: text("none", "The job.", "required"),
    call_number: integer(
      "none",
      "Order of reservation; responses of later calls replace those of earlier ones.",
      "required",
    ),
    endpoint: text("none", "Method and path.", "required"),
    api_request_id: text("none", "The service's ID of the call."),
    started_at: timestamptz("none", "When it was sent.", "required"),
    request_completed_at: timestamptz("none", "Completion time reported by the service."),
    milliseconds: integer("none", "Milliseconds until the whole response was read."),
    http_status: integer("none", "HTTP status; null without a response."),
    attempt: position("none", "1-based attempt of this batch.", "required"),
    records_sent: integer("none", "Number of records in the request.", "required"),
    records_matched: integer("none", "Results with a match; null without results."),
    response_bytes: integer("none", "Size of the response in bytes, as received.", "required"),
    possibly_billed: boolean("none", "True if the outcome doesn't show whether it was billed.", "required"),
    settled_at: timestamptz(
      "none",
      "When its outcome was recorded; null while in flight, or permanently after a crash.",
    ),
    budget: text("none", "Budget it counts against: the job's type; null for none."),
    reserved_at: timestamptz(
      "none",
      "When its records were reserved; determines the UTC day and month they count in.",
    ),
    records_reserved: integer(
      "none",
      "Records counted against budgets and caps; 0 if known not to be billed.",
      "required",
    ),
    records_in_doubt: integer(
      "none",
      "Records that may have been billed without a result: all of a call without a response, or those that the response omits.",
      "required",
    ),
    records_possibly_billed_twice: integer(
      "none",
      "Records that may also have been billed in an earlier call; an upper bound.",
      "required",
    ),
    is_sent: boolean("none", "False if no connection was established; null while in flight."),
    price: short(
      numeric(
        "none",
        "Price of one billed record when the call was reserved; null without `prices`, or with `price_tiers`.",
      ),
    ),
    currency: text("none", "Currency of the price, ISO 4217."),
    price_tiers: text(
      "none",
      "Prices by number of records in the month (`price_tier`); null for a single one.",
    ),
    billed_per: oneOf(
      ["record", "match"],
      "`record` or `match`, as set in `prices`; null if not set: then addresses and matches count as billed.",
    ),
    error_code: text("none", "Code of the service's error; null without one."),
    error_details: json("none", "Figures of a 402: records available and requested."),
  },
});

export const priceTier = table("price_tier", {
  schema: "ops",
  doc: "Prices that depend on the number of records billed in the UTC month, as configured when calls were reserved.",
  key: ["price_tiers", "records_from"],
  columns: {
    price_tiers: text("none", "All tiers, as text."),
    records_from: integer("none", "Billed records of the month before the first one at this price."),
    records_to: integer(
      "none",
      "Billed records of the month up to the last one at this price; null for the last tier.",
    ),
    amount: short(numeric("none", "Price of one billed record; 0 for an included allowance.", "required")),
  },
});

/** Budget of the people that synchronous searches deliver: metered by the service, not billed (interface section 4.1). */
export const METERED_SEARCH = "person_search";

/** Condition on calls that can be billed, as SQL. */
export const isBillable = `budget <> '${METERED_SEARCH}'`;

/**
 * Records that a call of the ledger was billed, as SQL: as `billed_per` states, by default addresses answered, matches of other lookups;
 * the charge of an unlock. Calls that may have been billed, and records without a result, are in `records_in_doubt` instead.
 */
export const billedRecords = `CASE WHEN (${isBillable}) IS NOT TRUE OR possibly_billed OR records_matched IS NULL THEN 0
    WHEN coalesce(billed_per, CASE budget WHEN 'validate_emails' THEN 'record' ELSE 'match' END) = 'record'
      THEN records_sent - records_in_doubt ELSE records_matched END`;
