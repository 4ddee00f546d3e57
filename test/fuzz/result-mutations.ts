import type { Random } from "../support/seeded-random.ts";
import { deepJson, oddJson, oddName, oddNumber, oddText } from "./odd-values.ts";

/** A parsed result that may be damaged in any way. */
type Loose = Record<string, unknown>;

/** Text that takes the place of a value when a draft is written: what no parsed value could be written as. */
interface Draft {
  readonly record: Loose;
  /** A value that will be written exactly so. */
  raw(text: string): string;
}

/** A member of a draft's record, or of an object in one of its lists. */
interface Member {
  readonly object: Loose;
  readonly name: string;
  readonly value: unknown;
}

function isLoose(value: unknown): value is Loose {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A record's text; the one before where it is nested deeper than the platform can write. */
function write(record: Loose, otherwise: string): string {
  try {
    return JSON.stringify(record);
  } catch {
    return otherwise;
  }
}

/** Changes one result's text by way of its parsed form; leaves it where an earlier change made it no object. */
function editResult(text: string, edit: (draft: Draft) => void): string {
  const record: unknown = JSON.parse(text);
  if (!isLoose(record) || Object.keys(record).length === 0) return text;
  const raws: string[] = [];
  edit({ record, raw: (replacement) => `@raw-${raws.push(replacement) - 1}@` });
  return write(record, text).replaceAll(/"@raw-(\d+)@"/gu, (_, index: string) => raws[Number(index)] ?? "");
}

/** Every member of the record and of the objects in its lists. */
function membersOf(record: Loose): readonly Member[] {
  const elements = Object.values(record).flatMap((value) =>
    Array.isArray(value) ? value.filter(isLoose) : [],
  );
  return [record, ...elements].flatMap((object) =>
    Object.entries(object).map(([name, value]) => ({ object, name, value })),
  );
}

/** Sets a member, also one called `__proto__`. */
function put(object: Loose, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}

/** Damages the text of one result; the output is still JSON. */
export type ResultMutation = (text: string, random: Random) => string;

type Edit = (draft: Draft, random: Random) => void;

/** Fields that pair a result with its record or decide its outcome. */
const IDENTITY = ["record_id", "email_address", "service_pid", "is_match"] as const;

const edit =
  (change: Edit): ResultMutation =>
  (text, random) =>
    editResult(text, (draft) => {
      change(draft, random);
    });

function replaceValue({ record }: Draft, random: Random, value: (old: unknown) => unknown): void {
  const member = random.pick(membersOf(record));
  put(member.object, member.name, value(member.value));
}

function pickList(record: Loose, random: Random): unknown[] | null {
  const lists = Object.values(record).filter((value) => Array.isArray(value));
  return lists.length === 0 ? null : random.pick(lists);
}

function otherCase(text: string): string {
  return text.replaceAll(/\p{L}/gu, (c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase()));
}

/** Writes characters as escapes, in names and values: another text of the same JSON. */
function escapeLetters(text: string, random: Random): string {
  const letter = random.pick(["e", "r", "i", "d", "_", "@", " "]);
  const code = letter.charCodeAt(0).toString(16).padStart(4, "0");
  return text.replaceAll(/"(?:[^"\\]|\\.)*"/gu, (string) =>
    string.replaceAll(new RegExp(`(?<!\\\\)(?<!\\\\u\\w{0,3})${letter}`, "gu"), `\\u${code}`),
  );
}

/** All kinds of damage to one result, by name. */
export const RESULT_MUTATIONS: Readonly<Record<string, ResultMutation>> = {
  any_value: edit((draft, random) => replaceValue(draft, random, () => draft.raw(oddJson(random)))),
  many_values: edit((draft, random) => {
    for (let i = random.below(12); i >= 0; i--) replaceValue(draft, random, () => draft.raw(oddJson(random)));
  }),
  odd_number: edit((draft, random) => replaceValue(draft, random, () => draft.raw(oddNumber(random)))),
  odd_text: edit((draft, random) => replaceValue(draft, random, () => oddText(random))),
  text_inserted: edit((draft, random) =>
    replaceValue(draft, random, (old) => {
      const text = typeof old === "string" ? old : "text";
      const at = random.below(text.length + 1);
      return text.slice(0, at) + oddText(random) + text.slice(at);
    }),
  ),
  as_text: edit((draft, random) =>
    replaceValue(draft, random, (old) => (typeof old === "string" ? [old] : JSON.stringify(old))),
  ),
  deep: edit((draft, random) => replaceValue(draft, random, () => draft.raw(deepJson(random)))),
  field_gone: edit(({ record }, random) => {
    const member = random.pick(membersOf(record));
    delete member.object[member.name];
  }),
  field_added: edit((draft, random) => {
    put(random.pick(membersOf(draft.record)).object, oddName(random), draft.raw(oddJson(random)));
  }),
  field_twice: edit((draft, random) => {
    const { object, name, value } = random.pick(membersOf(draft.record));
    const [first, second] = random.chance(0.5)
      ? [oddJson(random), JSON.stringify(value)]
      : [JSON.stringify(value), oddJson(random)];
    put(object, name, draft.raw(`${first},${JSON.stringify(name)}:${second}`));
  }),
  fields_reversed: edit(({ record }) => {
    const members = Object.entries(record).toReversed();
    for (const [name] of members) delete record[name];
    for (const [name, value] of members) put(record, name, value);
  }),
  element_odd: edit((draft, random) => {
    const list = pickList(draft.record, random);
    list?.splice(random.below(list.length + 1), random.below(2), draft.raw(oddJson(random)));
  }),
  list_long: edit(({ record }, random) => {
    const list = pickList(record, random);
    const more = random.pick([3, 50, random.chance(0.05) ? 5000 : 300]);
    list?.push(...Array.from({ length: more }, () => list[0] ?? {}));
  }),
  list_reversed: edit(({ record }, random) => {
    const list = pickList(record, random);
    list?.splice(0, list.length, ...list.toReversed());
  }),
  identity_odd: edit((draft, random) => put(draft.record, random.pick(IDENTITY), draft.raw(oddJson(random)))),
  identity_gone: edit(({ record }, random) => {
    delete record[random.pick(IDENTITY)];
  }),
  identity_case: edit(({ record }, random) => {
    const name = random.pick(IDENTITY);
    const value = record[name];
    if (typeof value === "string") record[name] = random.chance(0.5) ? otherCase(value) : ` ${value} `;
  }),
  whole_odd: (_text, random) => oddJson(random),
  // Adds spaces between tokens, not inside texts.
  spread_out: (text) =>
    text.replaceAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]/gu, (token) =>
      token.startsWith('"') ? token : `\r\n\t${token} `,
    ),
  escaped: (text, random) => escapeLetters(text, random),
};
