import { type Refusal, refuse } from "../http/outcome.ts";
import { type Fault, type FaultValue, numberOr } from "./fault.ts";

const HTML =
  "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>";

function always(doc: string, refusal: (value: FaultValue, count: number) => Refusal): Fault {
  return { doc, stage: "refusal", refuse: (value, records) => refusal(value, records.length) };
}

/** The 429 of section 7.2. */
export function tooFast(headers: Readonly<Record<string, string>> = {}): Refusal {
  return refuse(429, "rate_limit_reached", "Request rate limit or plan quota exceeded.", { headers });
}

const httpDate = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString();

/** The 402 of section 7.2, with its details. */
export function outOfCapacity(available: number, requested: number): Refusal {
  return refuse(402, "insufficient_record_capacity", "Plan allowance and overage cannot cover the records.", {
    details: {
      records_available: available,
      allowance_records_available: available,
      overage_records_available: 0,
      records_requested: requested,
    },
  });
}

/** The 402 of exhausted credits. */
export function outOfCredits(remaining: number): Refusal {
  return refuse(402, "insufficient_credits", "Credits are exhausted.", {
    details: { records_remaining: remaining },
  });
}

/** Path to the first text that contains `part`; null if there is none. */
function pathTo(value: unknown, part: string): readonly string[] | null {
  if (typeof value === "string") return value.includes(part) ? [] : null;
  for (const [key, inner] of Object.entries(Object(value))) {
    const rest = pathTo(inner, part);
    if (rest) return [key, ...rest];
  }
  return null;
}

/** Refuses the whole batch if one of its records contains the value (default `Poison`). */
function poison(doc: string, refusal: (part: string, records: readonly unknown[]) => Refusal): Fault {
  return {
    doc,
    stage: "refusal",
    refuse(value, records) {
      const part = value ?? "Poison";
      return pathTo(records, part) ? refusal(part, records) : null;
    },
  };
}

const invalid = (details?: Refusal["details"]) =>
  refuse(422, "unprocessable_entity", "The request could not be processed.", details ? { details } : {});

/** Faults that answer an error; nothing is billed. */
export const REFUSAL_FAULTS = {
  "429": always("429 with `Retry-After` in seconds (the value, default 1)", (value) =>
    tooFast({ "retry-after": String(numberOr(value, 1)) }),
  ),
  "429_date": always("429 with `Retry-After` as an HTTP date (the value in seconds, default 1)", (value) =>
    tooFast({ "retry-after": httpDate(numberOr(value, 1)) }),
  ),
  "429_bare": always("429 without `Retry-After`", () => tooFast()),
  "500": always("500, current shape", () => refuse(500, null, "Unexpected server error.")),
  "502": always("502 with an HTML page", () => refuse(502, null, "Bad gateway.", { html: HTML })),
  "503": always("503; with a value also `Retry-After` in seconds", (value) =>
    refuse(503, null, "The service is temporarily unavailable.", {
      headers: value === null ? {} : { "retry-after": String(numberOr(value, 1)) },
    }),
  ),
  "504": always("504, current shape", () => refuse(504, null, "Gateway timeout.")),
  "402": always(
    "402 `insufficient_record_capacity` with `records_available` (the value, default 0)",
    (value, count) => outOfCapacity(numberOr(value, 0), count),
  ),
  "402_credits": always(
    "402 `insufficient_credits` with `records_remaining` (the value, default 0)",
    (value) => outOfCredits(numberOr(value, 0)),
  ),
  revoked: always("401, as for a revoked key", () =>
    refuse(401, "unauthorized", "The API key is invalid, revoked or missing."),
  ),
  forbidden: always("403 `forbidden`, as for a route the key may not call", () =>
    refuse(403, "forbidden", "The API key is not authorized for this route or plan."),
  ),
  redirect: always("302 to another host", () =>
    refuse(302, null, "Moved.", { headers: { location: "http://elsewhere.invalid/v2/enrich" } }),
  ),
  "409": always("409, as for results that are being unlocked", () =>
    refuse(409, null, "An unlock is already in progress."),
  ),
  "413": {
    doc: "413 for more records than the value (default 100)",
    stage: "refusal",
    refuse: (value, records) =>
      records.length > numberOr(value, 100)
        ? refuse(413, "payload_too_large", "The payload is too large.")
        : null,
  },
  string_too_long: {
    doc: "422 with `string_too_long` at a text of a random record",
    stage: "refusal",
    refuse(_value, records, dice) {
      const at = dice.below(Math.max(1, records.length));
      const field = Object.entries(Object(records[at])).find(
        ([name, text]) => typeof text === "string" && name !== "record_id",
      );
      const loc = [
        "body",
        "records",
        String(at),
        ...(field && typeof records[at] !== "string" ? [field[0]] : []),
      ];
      return invalid([{ loc, type: "string_too_long" }]);
    },
  },
  poison: poison(
    "422 whose details name every record that contains the value (default `Poison`)",
    (part, records) =>
      invalid(
        records.flatMap((record, i) => {
          const path = pathTo(record, part);
          return path ? [{ loc: ["body", "records", String(i), ...path], type: "value_error" }] : [];
        }),
      ),
  ),
  poison_blind: poison(
    "422 without details for a batch with a record that contains the value (default `Poison`)",
    () => invalid(),
  ),
  poison_500: poison("500 for a batch with a record that contains the value (default `Poison`)", () =>
    refuse(500, null, "Unexpected server error."),
  ),
} satisfies Record<string, Fault>;
