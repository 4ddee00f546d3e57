import {
  type ErrorShape,
  outOfCapacity,
  outOfCredits,
  type Refusal,
  refuse,
  tooFast,
} from "../http/answer.ts";
import type { Dice } from "../population/hash.ts";

/** Optional number or text of a fault (`slow=2000`). */
export type FaultValue = string | null;

/** A result that a fault changes: a parsed JSON object. */
export type LooseRecord = Record<string, unknown>;

/** Damage and delay of an answer in transit. */
export interface Wire {
  /** `cut_body` ends in the middle; `truncated` is complete HTTP with half the JSON; `lost` never arrives. */
  readonly damage: "none" | "cut_body" | "truncated" | "lost";
  /** Waits between the headers and the body. */
  readonly bodyDelayMs: number;
}

/** A fault that can be switched on; its stage decides its effect. */
export type Fault = { readonly doc: string } & (
  | { readonly stage: "delay"; delayMs(value: FaultValue): number }
  /** Breaks the connection before the request is executed. */
  | { readonly stage: "connection" }
  /** Answers an error instead of the request's results; nothing is billed. Null lets the request pass. */
  | {
      readonly stage: "refusal";
      refuse(value: FaultValue, records: readonly unknown[], dice: Dice): Refusal | null;
    }
  /** Changes the shape of error answers. */
  | { readonly stage: "shape"; readonly shape: Partial<ErrorShape> }
  /** Changes the list of results (JSON texts). */
  | { readonly stage: "results"; rearrange(results: readonly string[], dice: Dice): readonly string[] }
  /** Changes one result; applied to a `share` of the results, at least one. */
  | { readonly stage: "record"; readonly share: number; distort(record: LooseRecord, dice: Dice): void }
  /** Damages the answer in transit; the request was executed and billed. */
  | { readonly stage: "wire"; damage(value: FaultValue): Partial<Wire> }
);

function numberOr(value: FaultValue, otherwise: number): number {
  const number = Number(value ?? Number.NaN);
  return Number.isFinite(number) ? number : otherwise;
}

const refusal = (doc: string, refuse: Extract<Fault, { stage: "refusal" }>["refuse"]): Fault => ({
  doc,
  stage: "refusal",
  refuse,
});
const wire = (doc: string, damage: (value: FaultValue) => Partial<Wire>): Fault => ({
  doc,
  stage: "wire",
  damage,
});
const results = (doc: string, rearrange: Extract<Fault, { stage: "results" }>["rearrange"]): Fault => ({
  doc,
  stage: "results",
  rearrange,
});
const shape = (doc: string, changes: Partial<ErrorShape>): Fault => ({ doc, stage: "shape", shape: changes });

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
function poison(doc: string, refusalOf: (locs: readonly (readonly string[])[]) => Refusal): Fault {
  return refusal(`${doc} contains the value (default \`Poison\`)`, (value, records) => {
    const locs = records.flatMap((record, i) => {
      const path = pathTo(record, value ?? "Poison");
      return path ? [["body", "records", String(i), ...path]] : [];
    });
    return locs.length > 0 ? refusalOf(locs) : null;
  });
}

const invalid = (details?: Refusal["details"]) =>
  refuse(422, "unprocessable_entity", "The request could not be processed.", details ? { details } : {});
const failed = () => refuse(500, null, "Unexpected server error.");
const retryAfter = (value: FaultValue) => ({ "retry-after": String(numberOr(value, 1)) });
const httpDate = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString();

const HTML =
  "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>";
const FOREIGN_RESULT =
  '{"record_id":"sandbox-foreign","email_address":"nobody@sandbox.example","is_match":false,"service_pid":null,"match_score":null,"validation_errors":null}';

/** Fields that identify a result; no distortion touches them. */
const IDENTITY: ReadonlySet<string> = new Set([
  "record_id",
  "service_pid",
  "is_match",
  "email_address",
  "obituary_id",
  "endpoint",
  "period_start",
]);

/** An instant with its zone. */
const ZONED = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

const isRecord = (value: unknown): value is LooseRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Objects of a result: itself first, then the elements of its lists. */
function objectsIn(result: LooseRecord): readonly LooseRecord[] {
  const lists = Object.values(result).filter((value) => Array.isArray(value));
  return [result, ...lists.flat().filter(isRecord)];
}

/** Members that don't identify the result, of it and of the elements of its lists. */
function membersOf(result: LooseRecord) {
  return objectsIn(result).flatMap((object) =>
    Object.entries(object)
      .filter(([name]) => object !== result || !IDENTITY.has(name))
      .map(([name, value]) => ({ object, name, value })),
  );
}

const record = (doc: string, share: number, distort: (result: LooseRecord, dice: Dice) => void): Fault => ({
  doc,
  stage: "record",
  share,
  distort,
});

const each = (doc: string, share: number, change: (value: unknown, name: string) => unknown): Fault =>
  record(doc, share, (result) => {
    for (const { object, name, value } of membersOf(result)) object[name] = change(value, name);
  });

const eachInstant = (doc: string, change: (text: string) => string): Fault =>
  each(doc, 1, (value) => (typeof value === "string" && ZONED.test(value) ? change(value) : value));

function changeOne(
  result: LooseRecord,
  dice: Dice,
  fits: (value: unknown) => boolean,
  change: (value: unknown) => unknown,
): void {
  const members = membersOf(result).filter(({ value }) => fits(value));
  const member = members[dice.below(members.length)];
  if (member) member.object[member.name] = change(member.value);
}

const isFraction = (value: unknown): boolean => typeof value === "number" && !Number.isInteger(value);

const isText = (value: unknown): boolean => typeof value === "string";

/** Makes a fault that inserts into a text at a random place. */
const corrupted = (doc: string, insertedOf: (dice: Dice) => string): Fault =>
  record(doc, 0.1, (result, dice) => {
    const inserted = insertedOf(dice);
    changeOne(result, dice, isText, (value) => {
      const text = String(value);
      const at = dice.below(text.length + 1);
      return text.slice(0, at) + inserted + text.slice(at);
    });
  });

function anotherType(value: unknown, dice: Dice): unknown {
  const choices: readonly unknown[] = ["sandbox text", 12.5, true, { sandbox: 1 }, ["sandbox"]];
  const others = choices.filter(
    (choice) => typeof choice !== typeof value || Array.isArray(choice) !== Array.isArray(value),
  );
  return others[dice.below(others.length)];
}

const HUGE = ["9007199254740993", "9223372036854775807", "123456789012345678901234567890"] as const;
const OWNER_SPELLINGS: readonly (readonly unknown[])[] = [
  ["true", "false"],
  ["Y", "N"],
  [1, 0],
];

export const FAULTS: Readonly<Record<string, Fault>> = {
  "429": refusal("429 with `Retry-After` in seconds (the value, default 1)", (value) =>
    tooFast(retryAfter(value)),
  ),
  "429_date": refusal("429 with `Retry-After` as an HTTP date (the value in seconds, default 1)", (value) =>
    tooFast({ "retry-after": httpDate(numberOr(value, 1)) }),
  ),
  "429_bare": refusal("429 without `Retry-After`", () => tooFast()),
  "500": refusal("500, current shape", failed),
  "502": refusal("502 with an HTML page", () => refuse(502, null, "Bad gateway.", { html: HTML })),
  "503": refusal("503; with a value also `Retry-After` in seconds", (value) =>
    refuse(503, null, "The service is temporarily unavailable.", {
      headers: value === null ? {} : retryAfter(value),
    }),
  ),
  "504": refusal("504, current shape", () => refuse(504, null, "Gateway timeout.")),
  "402": refusal(
    "402 `insufficient_record_capacity` with `records_available` (the value, default 0)",
    (value, records) => outOfCapacity(numberOr(value, 0), records.length),
  ),
  "402_credits": refusal(
    "402 `insufficient_credits` with `records_remaining` (the value, default 0)",
    (value) => outOfCredits(numberOr(value, 0)),
  ),
  revoked: refusal("401, as for a revoked key", () =>
    refuse(401, "unauthorized", "The API key is invalid, revoked or missing."),
  ),
  forbidden: refusal("403 `forbidden`, as for a route the key may not call", () =>
    refuse(403, "forbidden", "The API key is not authorized for this route or plan."),
  ),
  redirect: refusal("302 to another host", () =>
    refuse(302, null, "Moved.", { headers: { location: "http://elsewhere.invalid/v2/enrich" } }),
  ),
  "409": refusal("409, as for results that are being unlocked", () =>
    refuse(409, null, "An unlock is already in progress."),
  ),
  "413": refusal("413 for more records than the value (default 100)", (value, records) =>
    records.length > numberOr(value, 100)
      ? refuse(413, "payload_too_large", "The payload is too large.")
      : null,
  ),
  string_too_long: refusal(
    "422 with `string_too_long` at a text of a random record",
    (_value, records, dice) => {
      const at = dice.below(Math.max(1, records.length));
      const record = records[at];
      const fields = typeof record === "string" ? [] : Object.entries(Object(record));
      const field = fields.find(([name, text]) => typeof text === "string" && name !== "record_id");
      const loc = ["body", "records", String(at), ...(field ? [field[0]] : [])];
      return invalid([{ loc, type: "string_too_long" }]);
    },
  ),
  poison: poison("422 whose details name every record that", (locs) =>
    invalid(locs.map((loc) => ({ loc, type: "value_error" }))),
  ),
  poison_blind: poison("422 without details for a batch with a record that", () => invalid()),
  poison_500: poison("500 for a batch with a record that", failed),

  slow: {
    doc: "waits before it responds (the value in milliseconds, default 1000)",
    stage: "delay",
    delayMs: (value) => numberOr(value, 1000),
  },
  slow_body: wire(
    "waits between headers and body (the value in milliseconds, default 1000); billed",
    (value) => ({ bodyDelayMs: numberOr(value, 1000) }),
  ),
  cut_before: {
    doc: "closes the connection before the request is executed; not billed",
    stage: "connection",
  },
  cut_body: wire("closes the connection in the middle of the body; billed", () => ({ damage: "cut_body" })),
  truncated_json: wire("half of the JSON, with a matching content-length; billed", () => ({
    damage: "truncated",
  })),
  reply_lost: wire("resets the connection after the request was executed; billed", () => ({
    damage: "lost",
  })),
  shuffled: results("results in a different order", (list, dice) =>
    list
      .map((result) => ({ result, order: dice.below(2 ** 32) }))
      .toSorted((a, b) => a.order - b.order)
      .map(({ result }) => result),
  ),
  duplicated: results("one result in ten twice, at least one", (list, dice) => {
    const sure = dice.below(list.length);
    return list.flatMap((result, i) => (i === sure || dice.chance(0.1) ? [result, result] : [result]));
  }),
  missing: results("one result in ten omitted, at least one; billed anyway", (list, dice) => {
    const sure = dice.below(list.length);
    return list.filter((_, i) => i !== sure && !dice.chance(0.1));
  }),
  foreign: results("one extra result, for a record that was not sent", (list) => [...list, FOREIGN_RESULT]),
  legacy_errors: shape("errors in the legacy shape `{api_request_id, error_message}`", { form: "legacy" }),
  status_code_errors: shape("errors in the shape `{error, status_code}`", { form: "status_code" }),
  deprecated_fields: shape("errors that also have the deprecated `statusCode` and `body`", {
    deprecatedFields: true,
  }),

  unknown_fields: record(
    "fields not in the interface, in the result and in the elements of its lists",
    0.3,
    (result, dice) => {
      const additions = ["new text", 17.25, false, null, { nested: { deep: [1, "two"] } }, ["a", null]];
      for (const object of objectsIn(result)) {
        if (object === result || dice.chance(0.5))
          object["sandbox_new_field"] = additions[dice.below(additions.length)];
      }
    },
  ),
  wrong_types: record(
    "one field with a different JSON type than documented, lists included",
    0.1,
    (result, dice) =>
      changeOne(
        result,
        dice,
        () => true,
        (value) => anotherType(value, dice),
      ),
  ),
  wrong_elements: record("a list with an element that isn't an object", 0.1, (result, dice) => {
    const lists = Object.values(result).filter((value) => Array.isArray(value));
    const list = lists[dice.below(lists.length)];
    list?.splice(dice.below(list.length + 1), 0, ["sandbox", 7, null][dice.below(3)]);
  }),
  nul_text: corrupted("a NUL character (U+0000) in a text", () => "\u0000"),
  lone_surrogates: corrupted("half a surrogate pair in a text", (dice) =>
    dice.chance(0.5) ? "\ud83d" : "\ude80",
  ),
  null_lists: each("null instead of empty lists", 1, (value) =>
    Array.isArray(value) && value.length === 0 ? null : value,
  ),
  exponent_numbers: each("numbers written like 1.25e5", 0.5, (value) =>
    typeof value === "number" ? JSON.rawJSON(value.toExponential()) : value,
  ),
  decimal_strings: each("fractional numbers as decimal strings", 0.5, (value) =>
    isFraction(value) ? String(value) : value,
  ),
  utc_times: eachInstant("instants with an offset converted to UTC, with Z", (text) => {
    const fraction = ZONED.exec(text)?.[2] ?? "";
    return `${new Date(Date.parse(text)).toISOString().slice(0, 19)}${fraction}Z`;
  }),
  zoneless_times: eachInstant("instants without their zone", (text) =>
    text.replace(/(?:Z|[+-]\d\d:\d\d)$/, ""),
  ),
  local_z_times: eachInstant("instants with Z instead of their offset", (text) =>
    text.replace(/[+-]\d\d:\d\d$/, "Z"),
  ),
  slash_endpoints: record("endpoints with a leading slash", 1, (result) => {
    if (typeof result["endpoint"] === "string") result["endpoint"] = `/${result["endpoint"]}`;
  }),
  sparse_buckets: record("no buckets without requests", 1, (result) => {
    const { buckets } = result;
    if (Array.isArray(buckets))
      result["buckets"] = buckets.filter((bucket) => Reflect.get(Object(bucket), "total_requests") !== 0);
  }),
  huge_integers: record("an integer above 2 ** 53, sometimes above 2 ** 63", 0.1, (result, dice) =>
    changeOne(result, dice, Number.isInteger, () => JSON.rawJSON(HUGE[dice.below(HUGE.length)] ?? HUGE[0])),
  ),
  long_decimals: record("a number with more digits than a double has", 0.1, (result, dice) =>
    changeOne(result, dice, isFraction, () => JSON.rawJSON("412345.12345678901234567")),
  ),
  owner_spellings: record('`is_current_owner` as "true"/"false", "Y"/"N" or 1/0', 1, (result, dice) => {
    const [yes, no] = OWNER_SPELLINGS[dice.below(OWNER_SPELLINGS.length)] ?? [];
    for (const { object, name, value } of membersOf(result)) {
      if (name === "is_current_owner" && typeof value === "boolean") object[name] = value ? yes : no;
    }
  }),
};
