import { ageBetween, type Criterion, type Lexicon, moneyBetween, phraseKey, stateCodes } from "./criteria.ts";
import type { Person } from "./facts.ts";

/** Parsed audience. */
export type Expression =
  | { readonly op: "is"; readonly criterion: Criterion }
  | { readonly op: "not"; readonly item: Expression }
  | { readonly op: "and" | "or"; readonly items: readonly Expression[] };

/** A query as the sandbox reads it. */
interface ParsedQuery {
  /** Null if nothing in it is a criterion. */
  readonly expression: Expression | null;
  /** Phrases that are no criteria. */
  readonly unknown: readonly string[];
  /** The query without them; null if nothing in it is a criterion. */
  readonly understood: string | null;
}

type Token =
  | { readonly kind: "word"; readonly text: string }
  | { readonly kind: "mark"; readonly text: "(" | ")" | "," }
  | { readonly kind: "criterion"; readonly text: string; readonly criterion: Criterion };

const AMOUNT = String.raw`\$\s?\d[\d,]*(?:\.\d+)?\s?(?:k|m|million)?\b|\d[\d,]*(?:\.\d+)?\s?(?:k|m|million)\b`;
const MORE = "over|above|more than|at least|older than";
const LESS = "under|below|less than|at most|up to|younger than";
const SUBJECT = "(?:household )?(?:income|earning|earnings|salary|making)|net worth|wealth|worth|assets";
const TOKEN = new RegExp(
  [
    String.raw`(?<money>(?:(?<before>${SUBJECT})\s+(?:of\s+|is\s+)?)?(?:(?<moneySide>${MORE}|${LESS})\s+|between\s+|from\s+)?(?<low>${AMOUNT})(?<moneyPlus>\+)?(?:\s*(?:-|–|to|and)\s*(?<high>${AMOUNT}))?(?:\s+(?:in\s+)?(?<after>${SUBJECT}))?)`,
    String.raw`(?<age>(?:age[ds]?\s+)?(?:(?<ageSide>${MORE}|${LESS})\s+(?<age1>\d{1,3})|(?:between|from)\s+(?<age2>\d{1,3})\s*(?:-|–|to|and)\s*(?<age3>\d{1,3})|(?<age4>\d{1,3})\s*(?:-|–|to)\s*(?<age5>\d{1,3})|(?<age6>\d{1,3})\+)(?:[\s-]+years?(?:[\s-]+olds?)?)?(?![\p{L}\d]))`,
    String.raw`(?<mark>[(),;])`,
    String.raw`(?<word>[^\s(),;]+)`,
  ].join("|"),
  "giu",
);
const NOT_WORDS: ReadonlySet<string> = new Set(["not", "without", "except", "excluding", "no"]);
const AND_WORDS: ReadonlySet<string> = new Set(["and", "but", "also"]);
const FILLERS: ReadonlySet<string> = new Set(
  "a an the in at of for with who whose that are is be have has having their from living live lives based located working work works employed as people persons person anyone everyone individuals all find show me on by to aged industry sector company companies state years old degree role job title current currently only professionals workers".split(
    " ",
  ),
);
/** Words of the longest phrase. */
const MAX_PHRASE = 7;

function amountOf(text: string): number {
  const number = Number(text.replaceAll(/[^\d.]/g, ""));
  if (/k$/i.test(text)) return number * 1000;
  return /m(illion)?$/i.test(text) ? number * 1_000_000 : number;
}

const isStrict = (side: string): boolean => !/^(at least|at most|up to)$/i.test(side);
const isUpper = (side: string): boolean => new RegExp(`^(?:${LESS})$`, "i").test(side);

function moneyOf(groups: Readonly<Record<string, string | undefined>>): Criterion {
  const { before, after, low = "", high, moneySide: side } = groups;
  const kind = /worth|wealth|assets/i.test(`${before ?? ""} ${after ?? ""}`) ? "wealth" : "income";
  const first = amountOf(low);
  if (high !== undefined) return moneyBetween(kind, first, amountOf(high));
  return side !== undefined && isUpper(side)
    ? moneyBetween(kind, null, first)
    : moneyBetween(kind, first, null);
}

function ageIn(groups: Readonly<Record<string, string | undefined>>): Criterion {
  const { ageSide: side, age1, age2, age3, age4, age5, age6 } = groups;
  if (side !== undefined) {
    const bound = Number(age1);
    const step = isStrict(side) ? 1 : 0;
    return isUpper(side) ? ageBetween(null, bound - step) : ageBetween(bound + step, null);
  }
  if (age6 !== undefined) return ageBetween(Number(age6), null);
  return ageBetween(Number(age2 ?? age4), Number(age3 ?? age5));
}

function tokensOf(query: string): readonly Token[] {
  return [...query.matchAll(TOKEN)].map(({ 0: text, groups = {} }): Token => {
    if (groups["money"] !== undefined) return { kind: "criterion", text, criterion: moneyOf(groups) };
    if (groups["age"] !== undefined) return { kind: "criterion", text, criterion: ageIn(groups) };
    if (text === "(" || text === ")") return { kind: "mark", text };
    return groups["mark"] === undefined ? { kind: "word", text } : { kind: "mark", text: "," };
  });
}

const OR_WORDS: ReadonlySet<string> = new Set(["or"]);
const isWordOf = (token: Token | undefined, words: ReadonlySet<string>): boolean =>
  token?.kind === "word" && words.has(token.text.toLowerCase());

/** Parses a description of an audience; adjacent criteria are joined by "and". */
export function parseQuery(query: string, lexicon: Lexicon): ParsedQuery {
  const tokens = tokensOf(query.replaceAll(/[.!?]+(?=\s|$)/g, ""));
  const unknown = new Set<number>();
  let at = 0;

  /** Criterion that starts at a token, and the token after it. */
  const criterionAt = (start: number): { readonly criterion: Criterion; readonly next: number } | null => {
    const first = tokens[start];
    if (first?.kind === "criterion") return { criterion: first.criterion, next: start + 1 };
    if (first?.kind !== "word") return null;
    const words: string[] = [];
    for (let i = start; i < start + MAX_PHRASE; i++) {
      const token = tokens[i];
      if (token?.kind !== "word") break;
      words.push(token.text);
    }
    for (let length = words.length; length > 0; length--) {
      const found = lexicon.get(phraseKey(words.slice(0, length)));
      if (found) return { criterion: found, next: start + length };
    }
    const code = stateCodes.get(first.text);
    return code ? { criterion: code, next: start + 1 } : null;
  };
  /** Skips words without a meaning of their own, unless a phrase starts with them. */
  const afterFillers = (start: number): number => {
    let i = start;
    while (isWordOf(tokens[i], FILLERS) && criterionAt(i) === null) i += 1;
    return i;
  };
  /** One criterion with the alternatives of its kind: "Ohio or Texas". */
  const parseCriterion = (): Expression | null => {
    const first = criterionAt(at);
    if (!first) return null;
    const items = [first.criterion];
    at = first.next;
    for (;;) {
      const or = afterFillers(at);
      const other = isWordOf(tokens[or], OR_WORDS) ? criterionAt(afterFillers(or + 1)) : null;
      if (other?.criterion.kind !== first.criterion.kind) break;
      items.push(other.criterion);
      at = other.next;
    }
    return joined(
      "or",
      items.map((criterion) => ({ op: "is", criterion })),
    );
  };
  /** A criterion, its negation, or a group in parentheses. */
  const parseItem = (): Expression | null => {
    at = afterFillers(at);
    const token = tokens[at];
    if (isWordOf(token, NOT_WORDS)) {
      at += 1;
      const item = parseItem();
      return item && { op: "not", item };
    }
    if (token?.kind === "mark" && token.text === "(") {
      at += 1;
      const inner = parseOr();
      const close = tokens[at];
      if (close?.kind === "mark" && close.text === ")") at += 1;
      return inner;
    }
    const found = parseCriterion();
    if (!found && token) {
      if (token.kind === "word") unknown.add(at);
      at += 1;
    }
    return found;
  };
  /** Items up to the next "or" between different kinds. */
  const parseAnd = (): Expression | null => {
    const items: Expression[] = [];
    for (;;) {
      at = afterFillers(at);
      const token = tokens[at];
      if (!token || isWordOf(token, OR_WORDS) || (token.kind === "mark" && token.text === ")")) break;
      if (isWordOf(token, AND_WORDS) || (token.kind === "mark" && token.text === ",")) {
        at += 1;
        continue;
      }
      const item = parseItem();
      if (item) items.push(item);
    }
    return joined("and", withAlternatives(items));
  };
  const parseOr = (): Expression | null => {
    const items: Expression[] = [];
    for (;;) {
      const item = parseAnd();
      if (item) items.push(item);
      if (!isWordOf(tokens[at], OR_WORDS)) break;
      at += 1;
    }
    return joined("or", items);
  };

  const groups: Expression[] = [];
  while (at < tokens.length) {
    const group = parseOr();
    if (group) groups.push(group);
    // A closing parenthesis without an opening one, or the end.
    at += 1;
  }
  const expression = joined("and", groups);
  return {
    expression,
    unknown: phrasesOf(tokens, unknown),
    understood: expression && understoodOf(tokens, unknown),
  };
}

function joined(op: "and" | "or", items: readonly Expression[]): Expression | null {
  return items.length > 1 ? { op, items } : (items[0] ?? null);
}

/** Joins neighbors that exclude each other by "or": "nurses and teachers" are people of either role. */
function withAlternatives(items: readonly Expression[]): readonly Expression[] {
  const kindOf = (item: Expression | undefined): string | null => {
    const first = item?.op === "or" ? item.items[0] : item;
    return first?.op === "is" && first.criterion.isExclusive ? first.criterion.kind : null;
  };
  const merged: Expression[] = [];
  for (const item of items) {
    const last = merged.at(-1);
    const kind = kindOf(item);
    if (last && kind !== null && kind === kindOf(last)) {
      merged[merged.length - 1] = { op: "or", items: [last, item] };
    } else merged.push(item);
  }
  return merged;
}

/** Runs of unknown words. */
function phrasesOf(tokens: readonly Token[], unknown: ReadonlySet<number>): readonly string[] {
  const phrases: string[][] = [];
  for (const i of unknown) {
    const text = tokens[i]?.text ?? "";
    if (unknown.has(i - 1)) phrases.at(-1)?.push(text);
    else phrases.push([text]);
  }
  return phrases.map((words) => words.join(" "));
}

/** True for a word that says nothing at either end of a query. */
function isConnective(token: Token | undefined): boolean {
  return (
    isWordOf(token, FILLERS) ||
    isWordOf(token, AND_WORDS) ||
    isWordOf(token, OR_WORDS) ||
    (token?.kind === "mark" && token.text === ",")
  );
}

function understoodOf(tokens: readonly Token[], unknown: ReadonlySet<number>): string {
  const kept = tokens.filter((_, i) => !unknown.has(i));
  while (isConnective(kept.at(-1))) kept.pop();
  while (isConnective(kept[0])) kept.shift();
  const texts = kept.map(({ text }) => text);
  return texts.join(" ").replaceAll(" ,", ",").replaceAll("( ", "(").replaceAll(" )", ")");
}

/** True if a person belongs to an audience. */
export function isIn(expression: Expression, person: Person): boolean {
  if (expression.op === "is") return expression.criterion.isMet(person);
  if (expression.op === "not") return !isIn(expression.item, person);
  return expression.op === "and"
    ? expression.items.every((item) => isIn(item, person))
    : expression.items.some((item) => isIn(item, person));
}
