import type { Dice } from "./dice.ts";
import type { Fault, LooseRecord } from "./fault.ts";

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

/** Makes a fault that changes a share of the results. */
const record = (doc: string, share: number, distort: (record: LooseRecord, dice: Dice) => void): Fault => ({
  doc,
  stage: "record",
  share,
  distort,
});

/** Makes a fault that rewrites every instant. */
const eachInstant = (doc: string, change: (text: string) => string): Fault =>
  record(doc, 1, (result) =>
    changeEach(result, (value) => (typeof value === "string" && ZONED.test(value) ? change(value) : value)),
  );

const isRecord = (value: unknown): value is LooseRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Objects of a result: itself first, then the elements of its lists. */
function objectsIn(record: LooseRecord): readonly LooseRecord[] {
  return [
    record,
    ...Object.values(record).flatMap((value) => (Array.isArray(value) ? value.filter(isRecord) : [])),
  ];
}

/** Changes every member that doesn't identify the result, in the record and in the elements of its lists. */
function changeEach(record: LooseRecord, change: (value: unknown, name: string) => unknown): void {
  for (const object of objectsIn(record)) {
    for (const [name, value] of Object.entries(object)) {
      if (object !== record || !IDENTITY.has(name)) object[name] = change(value, name);
    }
  }
}

/** Picks a member that fits and doesn't identify the result, or null. */
function pickMember(
  record: LooseRecord,
  dice: Dice,
  fits: (value: unknown) => boolean,
): { readonly object: LooseRecord; readonly name: string; readonly value: unknown } | null {
  const members = objectsIn(record).flatMap((object) =>
    Object.entries(object)
      .filter(([name, value]) => (object !== record || !IDENTITY.has(name)) && fits(value))
      .map(([name, value]) => ({ object, name, value })),
  );
  return members[dice.below(members.length)] ?? null;
}

/** Picks a value of another JSON type. */
function anotherType(value: unknown, dice: Dice): unknown {
  const choices: readonly unknown[] = ["sandbox text", 12.5, true, { sandbox: 1 }, ["sandbox"]];
  const others = choices.filter(
    (choice) => typeof choice !== typeof value || Array.isArray(choice) !== Array.isArray(value),
  );
  return others[dice.below(others.length)];
}

function corruptText(record: LooseRecord, dice: Dice, inserted: string): void {
  const member = pickMember(record, dice, (value) => typeof value === "string");
  if (!member) return;
  const text = String(member.value);
  const at = dice.below(text.length + 1);
  member.object[member.name] = text.slice(0, at) + inserted + text.slice(at);
}

const isFraction = (value: unknown): boolean => typeof value === "number" && !Number.isInteger(value);
const HUGE = ["9007199254740993", "9223372036854775807", "123456789012345678901234567890"] as const;
const OWNER_SPELLINGS: readonly (readonly unknown[])[] = [
  ["true", "false"],
  ["Y", "N"],
  [1, 0],
];

/** Faults that change the content of results; none touches `record_id`, `service_pid` and `is_match`. */
export const DISTORTION_FAULTS = {
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
    (result, dice) => {
      const member = pickMember(result, dice, () => true);
      if (member) member.object[member.name] = anotherType(member.value, dice);
    },
  ),
  wrong_elements: record("a list with an element that isn't an object", 0.1, (result, dice) => {
    const lists = Object.values(result).filter((value) => Array.isArray(value));
    const list = lists[dice.below(lists.length)];
    list?.splice(dice.below(list.length + 1), 0, ["sandbox", 7, null][dice.below(3)]);
  }),
  nul_text: record("a NUL character (U+0000) in a text", 0.1, (result, dice) =>
    corruptText(result, dice, "\u0000"),
  ),
  lone_surrogates: record("half a surrogate pair in a text", 0.1, (result, dice) =>
    corruptText(result, dice, dice.chance(0.5) ? "\ud83d" : "\ude80"),
  ),
  null_lists: record("null instead of empty lists", 1, (result) =>
    changeEach(result, (value) => (Array.isArray(value) && value.length === 0 ? null : value)),
  ),
  exponent_numbers: record("numbers spelled like 1.25e5", 0.5, (result) =>
    changeEach(result, (value) => (typeof value === "number" ? JSON.rawJSON(value.toExponential()) : value)),
  ),
  decimal_strings: record("fractional numbers as decimal strings", 0.5, (result) =>
    changeEach(result, (value) => (isFraction(value) ? String(value) : value)),
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
  huge_integers: record("an integer above 2 ** 53, sometimes above 2 ** 63", 0.1, (result, dice) => {
    const member = pickMember(result, dice, Number.isInteger);
    if (member) member.object[member.name] = JSON.rawJSON(HUGE[dice.below(HUGE.length)] ?? HUGE[0]);
  }),
  long_decimals: record("a number with more digits than a double has", 0.1, (result, dice) => {
    const member = pickMember(result, dice, isFraction);
    if (member) member.object[member.name] = JSON.rawJSON("412345.12345678901234567");
  }),
  owner_spellings: record('`is_current_owner` as "true"/"false", "Y"/"N" or 1/0', 1, (result, dice) => {
    const [yes, no] = OWNER_SPELLINGS[dice.below(OWNER_SPELLINGS.length)] ?? [];
    changeEach(result, (value, name) =>
      name === "is_current_owner" && typeof value === "boolean" ? (value ? yes : no) : value,
    );
  }),
} satisfies Record<string, Fault>;
