import { between, type Criterion, type Lexicon, phraseKey, stateCodes } from "./criteria.ts";

/** A part of a query: a word or mark, or an amount or age that is a criterion. */
interface Token {
  readonly text: string;
  readonly criterion: Criterion | null;
}

const AMOUNT = String.raw`\$\s?\d[\d,]*(?:\.\d+)?\s?(?:k|m|million)?\b|\d[\d,]*(?:\.\d+)?\s?(?:k|m|million)\b`;
const LESS = "under|below|less than|at most|up to|younger than";
const SIDE = `over|above|more than|at least|older than|${LESS}`;
const SUBJECT = "(?:household )?(?:income|earning|earnings|salary|making)|net worth|wealth|worth|assets";
const TO = String.raw`\s*(?:-|–|to|and)\s*`;
const TOKEN = new RegExp(
  [
    String.raw`(?<money>(?:(?<before>${SUBJECT})\s+(?:of\s+|is\s+)?)?(?:(?<side>${SIDE})\s+|(?:between|from)\s+)?(?<low>${AMOUNT})\+?(?:${TO}(?<high>${AMOUNT}))?(?:\s+(?:in\s+)?(?<after>${SUBJECT}))?)`,
    String.raw`(?<age>(?:age[ds]?\s+)?(?:(?<ageSide>${SIDE})\s+(?<bound>\d{1,3})|(?:(?:between|from)\s+)?(?<youngest>\d{1,3})(?:${TO}(?<oldest>\d{1,3})|\+))(?:[\s-]+years?(?:[\s-]+olds?)?)?(?![\p{L}\d]))`,
    String.raw`[(),;]`,
    String.raw`[^\s(),;]+`,
  ].join("|"),
  "giu",
);
const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(" "));
const NOT = wordsOf("not without except excluding no");
const AND = wordsOf("and but also , ;");
const OR = wordsOf("or");
const FILLERS = wordsOf(
  "a an the in at of for with who whose that are is be have has having their from living live lives based located working work works employed as people persons person anyone everyone individuals all find show me on by to aged industry sector company companies state years old degree role job title current currently only professionals workers",
);
/** Words of the longest phrase. */
const MAX_PHRASE = 7;

function amountOf(text: string): number {
  const number = Number(text.replaceAll(/[^\d.]/g, ""));
  if (/k$/i.test(text)) return number * 1000;
  return /m(illion)?$/i.test(text) ? number * 1_000_000 : number;
}

const isUpper = (side: string): boolean => new RegExp(`^(?:${LESS})$`, "i").test(side);

/** Criterion of a token that is an amount or an age; null for words. */
function rangeIn(groups: Readonly<Record<string, string | undefined>>): Criterion | null {
  const { money, before, after, low = "", high, side, age, ageSide, bound, youngest, oldest } = groups;
  if (money !== undefined) {
    const kind = /worth|wealth|assets/i.test(`${before ?? ""} ${after ?? ""}`) ? "wealth" : "income";
    if (high !== undefined) return between(kind, amountOf(low), amountOf(high));
    return side !== undefined && isUpper(side)
      ? between(kind, null, amountOf(low))
      : between(kind, amountOf(low), null);
  }
  if (age === undefined) return null;
  if (ageSide === undefined)
    return between("age", Number(youngest), oldest === undefined ? null : Number(oldest));
  const step = /^(at least|at most|up to)$/i.test(ageSide) ? 0 : 1;
  return isUpper(ageSide)
    ? between("age", null, Number(bound) - step)
    : between("age", Number(bound) + step, null);
}

/** Joins criteria; null for none. */
function joined(how: "and" | "or", items: readonly Criterion[]): Criterion | null {
  const [first] = items;
  if (!first || items.length === 1) return first ?? null;
  const isOneKind = how === "or" && items.every(({ kind }) => kind === first.kind);
  return {
    kind: isOneKind ? first.kind : how,
    isExclusive: isOneKind && first.isExclusive,
    isMet: (person) =>
      how === "and" ? items.every((item) => item.isMet(person)) : items.some((item) => item.isMet(person)),
  };
}

/** Joins neighbors that exclude each other by "or": "nurses and teachers" are people of either role. */
function withAlternatives(items: readonly Criterion[]): readonly Criterion[] {
  const merged: Criterion[] = [];
  for (const item of items) {
    const last = merged.at(-1);
    const either =
      last?.kind === item.kind && last.isExclusive && item.isExclusive ? joined("or", [last, item]) : null;
    if (either) merged[merged.length - 1] = either;
    else merged.push(item);
  }
  return merged;
}

/** Parses a description of an audience; adjacent criteria are joined by "and". */
export function parseQuery(query: string, lexicon: Lexicon) {
  const tokens = [...query.replaceAll(/[.!?]+(?=\s|$)/g, "").matchAll(TOKEN)].map(
    ({ 0: text, groups = {} }): Token => ({ text, criterion: rangeIn(groups) }),
  );
  /** Numbers of tokens that are no criteria. */
  const unknown = new Set<number>();
  let at = 0;
  const isAt = (i: number, words: ReadonlySet<string>) => words.has(tokens[i]?.text.toLowerCase() ?? "");

  /** Criterion that starts at a token, and the token after it. */
  const criterionAt = (start: number): { readonly criterion: Criterion; readonly next: number } | null => {
    const first = tokens[start];
    if (first?.criterion) return { criterion: first.criterion, next: start + 1 };
    for (let next = start + MAX_PHRASE; next > start; next--) {
      const found = lexicon.get(phraseKey(tokens.slice(start, next).map(({ text }) => text)));
      if (found) return { criterion: found, next: Math.min(next, tokens.length) };
    }
    const code = stateCodes.get(first?.text ?? "");
    return code ? { criterion: code, next: start + 1 } : null;
  };
  /** Skips words without a meaning of their own, unless a phrase starts with them. */
  const afterFillers = (start: number): number => {
    let i = start;
    while (isAt(i, FILLERS) && criterionAt(i) === null) i += 1;
    return i;
  };
  /** One criterion with the alternatives of its kind ("Ohio or Texas"), a negation, or a group in parentheses. */
  const parseItem = (): Criterion | null => {
    at = afterFillers(at);
    const start = at;
    const first = criterionAt(start);
    at = first?.next ?? at + 1;
    if (!first && isAt(start, NOT)) {
      const item = parseItem();
      return item && { kind: "not", isExclusive: false, isMet: (person) => !item.isMet(person) };
    }
    if (tokens[start]?.text === "(") {
      const inner = parseOr();
      if (tokens[at]?.text === ")") at += 1;
      return inner;
    }
    if (!first) {
      if (start < tokens.length) unknown.add(start);
      return null;
    }
    const items = [first.criterion];
    for (;;) {
      const or = afterFillers(at);
      const other = isAt(or, OR) ? criterionAt(afterFillers(or + 1)) : null;
      if (other?.criterion.kind !== first.criterion.kind) return joined("or", items);
      items.push(other.criterion);
      at = other.next;
    }
  };
  /** Items up to the next "or" between different kinds. */
  const parseAnd = (): Criterion | null => {
    const items: Criterion[] = [];
    for (;;) {
      at = afterFillers(at);
      const token = tokens[at];
      if (!token || isAt(at, OR) || token.text === ")") return joined("and", withAlternatives(items));
      if (isAt(at, AND)) at += 1;
      else {
        const item = parseItem();
        if (item) items.push(item);
      }
    }
  };
  const parseOr = (): Criterion | null => {
    const items: Criterion[] = [];
    for (;;) {
      const item = parseAnd();
      if (item) items.push(item);
      if (!isAt(at, OR)) return joined("or", items);
      at += 1;
    }
  };

  const groups: Criterion[] = [];
  while (at < tokens.length) {
    const group = parseOr();
    if (group) groups.push(group);
    // A closing parenthesis without an opening one, or the end.
    at += 1;
  }
  const criterion = joined("and", groups);
  const kept = tokens.flatMap((token, i) => (unknown.has(i) ? [] : [token]));
  return {
    /** Null if nothing in the query is a criterion. */
    criterion,
    /** Phrases that are no criteria. */
    unknown: phrasesOf(tokens, unknown),
    /** The query without them; null if nothing in it is a criterion. */
    understood: criterion && textOf(kept),
  };
}

/** Runs of unknown words. */
function phrasesOf(tokens: readonly Token[], unknown: ReadonlySet<number>): readonly string[] {
  const phrases: string[] = [];
  for (const i of unknown) {
    const text = tokens[i]?.text ?? "";
    if (unknown.has(i - 1)) phrases.push(`${phrases.pop()} ${text}`);
    else phrases.push(text);
  }
  return phrases;
}

/** Tokens as a query, without words at its ends that say nothing. */
function textOf(tokens: readonly Token[]): string {
  const isConnective = ({ text }: Token) => [FILLERS, AND, OR].some((words) => words.has(text.toLowerCase()));
  const first = tokens.findIndex((token) => !isConnective(token));
  const last = tokens.findLastIndex((token) => !isConnective(token));
  const texts = tokens.slice(first, last + 1).map(({ text }) => text.replace(";", ","));
  return texts.join(" ").replaceAll(" ,", ",").replaceAll("( ", "(").replaceAll(" )", ")");
}
