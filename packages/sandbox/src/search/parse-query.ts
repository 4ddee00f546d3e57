import type { Person } from "../population/person-fields.ts";
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
    String.raw`[,;]`,
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

/** Criterion or word at a token, with the token after it. */
function criterionAt(tokens: readonly Token[], start: number, lexicon: Lexicon) {
  const first = tokens[start];
  if (first?.criterion) return { criterion: first.criterion, next: start + 1 };
  for (let next = Math.min(start + MAX_PHRASE, tokens.length); next > start; next--) {
    const found = lexicon.get(phraseKey(tokens.slice(start, next).map(({ text }) => text)));
    if (found) return { criterion: found, next };
  }
  const code = stateCodes.get(first?.text ?? "");
  return code ? { criterion: code, next: start + 1 } : null;
}

/** Criteria joined by "or", with those of them that are negated. */
interface Alternatives {
  readonly first: Criterion;
  readonly isNegated: boolean;
  readonly items: Criterion[];
}

/**
 * Parses a description of an audience. Criteria are joined by "and"; those of one kind after an "or", and those that
 * exclude each other ("nurses and teachers"), are alternatives.
 */
export function parseQuery(query: string, lexicon: Lexicon) {
  const tokens = [...query.replaceAll(/[.!?]+(?=\s|$)/g, "").matchAll(TOKEN)].map(
    ({ 0: text, groups = {} }): Token => ({ text, criterion: rangeIn(groups) }),
  );
  const groups: Alternatives[] = [];
  /** Numbers of tokens that are no criteria. */
  const unknown = new Set<number>();
  let isNegated = false;
  let isOr = false;
  for (let at = 0; at < tokens.length; ) {
    const found = criterionAt(tokens, at, lexicon);
    if (!found) {
      const word = tokens[at]?.text.toLowerCase() ?? "";
      if (NOT.has(word)) isNegated = true;
      else if (OR.has(word)) isOr = true;
      else if (!AND.has(word) && !FILLERS.has(word)) unknown.add(at);
      at += 1;
      continue;
    }
    const { criterion, next } = found;
    const last = groups.findLast(({ first }) => first.kind === criterion.kind);
    const excludes = last?.first.isExclusive && criterion.isExclusive && last.isNegated === isNegated;
    if (last && (isOr || excludes) && !(isNegated && !last.isNegated)) last.items.push(criterion);
    else groups.push({ first: criterion, isNegated, items: [criterion] });
    isNegated = false;
    isOr = false;
    at = next;
  }
  const isMet = (person: Person) =>
    groups.every(({ items, isNegated: isNot }) => items.some((item) => item.isMet(person)) !== isNot);
  const kept = tokens.filter((_, i) => !unknown.has(i));
  return {
    /** Null if nothing in the query is a criterion. */
    isMet: groups.length === 0 ? null : isMet,
    /** Words that are no criteria. */
    unknown: tokens.flatMap(({ text }, i) => (unknown.has(i) ? [text] : [])),
    /** The query without them; null if nothing in it is a criterion. */
    understood: groups.length === 0 ? null : textOf(kept),
  };
}

/** Tokens as a query, without words at its ends that say nothing. */
function textOf(tokens: readonly Token[]): string {
  const isConnective = ({ text }: Token) => [FILLERS, AND, OR].some((words) => words.has(text.toLowerCase()));
  const first = tokens.findIndex((token) => !isConnective(token));
  const last = tokens.findLastIndex((token) => !isConnective(token));
  const texts = tokens.slice(first, last + 1).map(({ text }) => text.replace(";", ","));
  return texts.join(" ").replaceAll(" ,", ",");
}
