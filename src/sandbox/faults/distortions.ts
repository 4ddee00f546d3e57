import type { Dice } from "./dice.ts";
import type { Fault, LooseRecord } from "./fault.ts";

/** Fields that a caller needs to know whose result it is; no distortion touches them. */
const IDENTITY: ReadonlySet<string> = new Set([
  "record_id",
  "service_pid",
  "is_match",
  "email_address",
  "obituary_id",
  "endpoint",
  "period_start",
]);

const isRecord = (value: unknown): value is LooseRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The objects of a result: itself first, then the elements of its lists. */
function objectsIn(record: LooseRecord): readonly LooseRecord[] {
  return [
    record,
    ...Object.values(record).flatMap((value) => (Array.isArray(value) ? value.filter(isRecord) : [])),
  ];
}

/** Calls `change` for every member that isn't identity, in the record and in the elements of its lists. */
function changeEach(record: LooseRecord, change: (value: unknown, name: string) => unknown): void {
  for (const object of objectsIn(record)) {
    for (const [name, value] of Object.entries(object)) {
      if (object !== record || !IDENTITY.has(name)) object[name] = change(value, name);
    }
  }
}

/** One member that isn't identity and that `fits`, or null. */
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

/** A value of another JSON type than the given one. */
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

/** A JSON number spelled exactly so. */
const rawNumber = (text: string): unknown => JSON.rawJSON(text);
const HUGE = ["9007199254740993", "9223372036854775807", "123456789012345678901234567890"] as const;
const OWNER_SPELLINGS: readonly (readonly unknown[])[] = [
  ["true", "false"],
  ["Y", "N"],
  [1, 0],
];

/** An instant with its zone. */
const ZONED = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** The same instant in UTC, with as many digits as it had. */
function inUtc(text: string): string {
  const fraction = ZONED.exec(text)?.[2] ?? "";
  return `${new Date(Date.parse(text)).toISOString().slice(0, 19)}${fraction}Z`;
}

/** Faults that change what results hold; all of them leave `record_id`, `service_pid` and `is_match` alone. */
export const DISTORTION_FAULTS = {
  unknown_fields: {
    doc: "fields that the interface doesn't name, in the result and in the elements of its lists",
    stage: "record",
    share: 0.3,
    distort(record, dice) {
      const additions: readonly unknown[] = [
        "new text",
        17.25,
        false,
        null,
        { nested: { deep: [1, "two"] } },
        ["a", null],
      ];
      for (const object of objectsIn(record)) {
        if (object === record || dice.chance(0.5))
          object["sandbox_new_field"] = additions[dice.below(additions.length)];
      }
    },
  },
  wrong_types: {
    doc: "one field of another JSON type than documented, lists included",
    stage: "record",
    share: 0.1,
    distort(record, dice) {
      const member = pickMember(record, dice, () => true);
      if (member) member.object[member.name] = anotherType(member.value, dice);
    },
  },
  wrong_elements: {
    doc: "a list with an element that isn't an object",
    stage: "record",
    share: 0.1,
    distort(record, dice) {
      const lists = Object.values(record).filter((value) => Array.isArray(value));
      const list = lists[dice.below(lists.length)];
      list?.splice(dice.below(list.length + 1), 0, ["sandbox", 7, null][dice.below(3)]);
    },
  },
  nul_text: {
    doc: "a NUL character (U+0000) in a text",
    stage: "record",
    share: 0.1,
    distort: (record, dice) => corruptText(record, dice, "\u0000"),
  },
  lone_surrogates: {
    doc: "half a surrogate pair in a text",
    stage: "record",
    share: 0.1,
    distort: (record, dice) => corruptText(record, dice, dice.chance(0.5) ? "\ud83d" : "\ude80"),
  },
  null_lists: {
    doc: "null in place of empty lists",
    stage: "record",
    share: 1,
    distort: (record) =>
      changeEach(record, (value) => (Array.isArray(value) && value.length === 0 ? null : value)),
  },
  exponent_numbers: {
    doc: "numbers spelled like 1.25e5",
    stage: "record",
    share: 0.5,
    distort: (record) =>
      changeEach(record, (value) => (typeof value === "number" ? rawNumber(value.toExponential()) : value)),
  },
  decimal_strings: {
    doc: "numbers that aren't whole, as decimal strings",
    stage: "record",
    share: 0.5,
    distort: (record) =>
      changeEach(record, (value) =>
        typeof value === "number" && !Number.isInteger(value) ? String(value) : value,
      ),
  },
  utc_times: {
    doc: "instants with another offset than Z in UTC, with Z",
    stage: "record",
    share: 1,
    distort: (record) =>
      changeEach(record, (value) => (typeof value === "string" && ZONED.test(value) ? inUtc(value) : value)),
  },
  zoneless_times: {
    doc: "instants as they stand, but without their zone",
    stage: "record",
    share: 1,
    distort: (record) =>
      changeEach(record, (value) =>
        typeof value === "string" && ZONED.test(value) ? value.replace(/(?:Z|[+-]\d\d:\d\d)$/, "") : value,
      ),
  },
  local_z_times: {
    doc: "instants as they stand, with Z in place of their offset",
    stage: "record",
    share: 1,
    distort: (record) =>
      changeEach(record, (value) =>
        typeof value === "string" && ZONED.test(value) ? value.replace(/[+-]\d\d:\d\d$/, "Z") : value,
      ),
  },
  slash_endpoints: {
    doc: "endpoints with a slash before them",
    stage: "record",
    share: 1,
    distort(record) {
      if (typeof record["endpoint"] === "string") record["endpoint"] = `/${record["endpoint"]}`;
    },
  },
  sparse_buckets: {
    doc: "no buckets without requests",
    stage: "record",
    share: 1,
    distort(record) {
      const { buckets } = record;
      if (Array.isArray(buckets))
        record["buckets"] = buckets.filter((bucket) => Reflect.get(Object(bucket), "total_requests") !== 0);
    },
  },
  huge_integers: {
    doc: "a whole number above 2 ** 53, sometimes above 2 ** 63",
    stage: "record",
    share: 0.1,
    distort(record, dice) {
      const member = pickMember(record, dice, (value) => Number.isInteger(value));
      if (member) member.object[member.name] = rawNumber(HUGE[dice.below(HUGE.length)] ?? HUGE[0]);
    },
  },
  long_decimals: {
    doc: "a number with more digits than a double holds",
    stage: "record",
    share: 0.1,
    distort(record, dice) {
      const member = pickMember(
        record,
        dice,
        (value) => typeof value === "number" && !Number.isInteger(value),
      );
      if (member) member.object[member.name] = rawNumber("412345.12345678901234567");
    },
  },
  owner_spellings: {
    doc: '`is_current_owner` as "true"/"false", "Y"/"N" or 1/0',
    stage: "record",
    share: 1,
    distort(record, dice) {
      const [yes, no] = OWNER_SPELLINGS[dice.below(OWNER_SPELLINGS.length)] ?? [];
      changeEach(record, (value, name) => {
        if (name !== "is_current_owner" || typeof value !== "boolean") return value;
        return value ? yes : no;
      });
    },
  },
} satisfies Record<string, Fault>;
