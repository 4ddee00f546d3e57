import type { Random } from "../support/seeded-random.ts";
import { deepJson, oddJson, oddName } from "./odd-values.ts";

/** Parts of an answer, each as JSON text. */
export interface AnswerParts {
  readonly apiRequestId: string;
  readonly completedAt: string;
  readonly results: readonly string[];
  /** The list of results comes after the other members. */
  readonly resultsLast: boolean;
}

/** Changes the set and order of results. */
export type ListMutation = (results: readonly string[], random: Random) => readonly string[];

/** Assembles the text of an answer in another way. */
export type EnvelopeMutation = (parts: AnswerParts, random: Random) => string;

/** Text of a sound answer. */
export function textOf({ apiRequestId, completedAt, results, resultsLast }: AnswerParts): string {
  const list = `"results":[${results.join(",")}]`;
  const [id, at] = [`"api_request_id":${apiRequestId}`, `"request_completed_at":${completedAt}`];
  return resultsLast ? `{${id},${at},${list}}` : `{${id},${list},${at}}`;
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  return items
    .map((item) => ({ item, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

function inserted(results: readonly string[], text: string, random: Random): readonly string[] {
  return results.toSpliced(random.below(results.length + 1), 0, text);
}

/** Characters of all unrequested results: an answer is seldom larger than 4 MB. */
const MOST_STRANGE_BYTES = 4_000_000;

/** All changes of the list of results, by name. */
export const LIST_MUTATIONS: Readonly<Record<string, ListMutation>> = {
  shuffled,
  reversed: (results) => results.toReversed(),
  some_missing: (results, random) => results.filter(() => random.chance(0.7)),
  one_missing: (results, random) => results.toSpliced(random.below(results.length), 1),
  none: () => [],
  doubled: (results) => [...results, ...results],
  one_doubled: (results, random) => inserted(results, random.pick(results), random),
  foreign: (results, random) =>
    inserted(
      results,
      random.pick(results).replace(/"(record_id|email_address)":"[^"]*"/u, '"$1":"nobody"'),
      random,
    ),
  stranger: (results, random) => inserted(results, oddJson(random), random),
  strangers: (results, random) => {
    const strangers = Array.from({ length: random.below(400) }, () =>
      random.pick(["null", "{}", "[]", "0", ...results]),
    );
    // Few copies of large results.
    let bytes = 0;
    return strangers.filter((text) => (bytes += text.length) <= MOST_STRANGE_BYTES);
  },
  one_nested: (results, random) => results.with(random.below(results.length), `[${random.pick(results)}]`),
  without_ids: (results) =>
    results.map((text) => text.replace(/"(?:record_id|email_address)":"[^"]*",/u, "")),
};

/** All odd envelopes, by name. */
export const ENVELOPE_MUTATIONS: Readonly<Record<string, EnvelopeMutation>> = {
  id_odd: (parts, random) => textOf({ ...parts, apiRequestId: oddJson(random) }),
  time_odd: (parts, random) => textOf({ ...parts, completedAt: oddJson(random) }),
  time_strange: (parts, random) =>
    textOf({
      ...parts,
      completedAt: JSON.stringify(
        random.pick([
          "9999-12-31T23:59:59.999999Z",
          "0001-01-01T00:00:00Z",
          "1969-12-31",
          "2026-13-01T00:00:00Z",
          "0001-01-01T00:00:00+14:00",
          "9999-12-31T23:59:59-14:00",
          "2026-11-20T01:02:03",
          "",
        ]),
      ),
    }),
  members_reordered: (parts) => textOf({ ...parts, resultsLast: !parts.resultsLast }),
  member_added: (parts, random) =>
    textOf(parts).replace("{", () => `{${JSON.stringify(oddName(random))}:${oddJson(random)},`),
  member_appended: (parts, random) =>
    `${textOf(parts).slice(0, -1)},${JSON.stringify(oddName(random))}:${oddJson(random)}}`,
  decoy_text: (parts) =>
    textOf(parts).replace("{", () => '{"note":"\\"results\\":[{\\"record_id\\":1}] ]}","\\"results\\"":[1],'),
  decoy_nested: (parts, random) =>
    textOf(parts).replace(
      "{",
      () => `{"data":{"results":[${random.pick(parts.results)}]},"list":[{"results":[]}],`,
    ),
  results_twice: (parts, random) =>
    textOf(parts).replace(
      "{",
      () => `{"results":${random.pick(["[]", "null", "[1,2]", `[${random.pick(parts.results)}]`])},`,
    ),
  results_twice_last: (parts, random) =>
    `${textOf(parts).slice(0, -1)},"results":${random.pick(["[]", "null", "{}", `[${random.pick(parts.results)}]`])}}`,
  results_escaped: (parts) => textOf(parts).replace('"results"', '"\\u0072esult\\u0073"'),
  results_no_list: (parts, random) =>
    textOf(parts).replace(/"results":\[/u, () => `"results":${oddJson(random)},"others":[`),
  results_no_list_at_all: (_parts, random) => `{"results":${oddJson(random)}}`,
  only_results: ({ results }) => `{"results":[${results.join(",")}]}`,
  bare_list: ({ results }) => `[${results.join(",")}]`,
  wrapped: (parts) => `[${textOf(parts)}]`,
  spaced: (parts, random) => {
    const blank = random.pick([" ", "\n", "\t\r\n ", " ".repeat(2000)]);
    const text = textOf({ ...parts, results: parts.results.map((result) => blank + result + blank) });
    return blank + text.replace('"results":[', `"results"${blank}:${blank}[`) + blank;
  },
  byte_order_mark: (parts) => `\ufeff${textOf(parts)}`,
  trailing: (parts, random) =>
    textOf(parts) + random.pick([",", "}", "]", "\u0000", " x", "\n{}", '{"results":[]}', "\ufeff", "null"]),
  twice: (parts) => textOf(parts) + textOf(parts),
  comma_extra: (parts, random) =>
    random.pick([
      textOf({ ...parts, results: [...parts.results, ""] }),
      textOf({ ...parts, results: ["", ...parts.results] }),
      textOf(parts).replace(/\}$/u, ",}"),
    ]),
  comma_gone: (parts) => textOf({ ...parts, results: [parts.results.join(" ")] }),
  quotes_single: (parts) => textOf(parts).replaceAll('"', "'"),
  comments: (parts) => `/* ok */${textOf(parts)}`,
  not_a_number: (parts, random) =>
    textOf(parts).replace(
      /:(?:\d[\d.]*)/u,
      () => `:${random.pick(["NaN", "Infinity", "01", "+1", "1.", ".5", "0x10", "1e", "-", "undefined"])}`,
    ),
  raw_control: (parts, random) =>
    textOf(parts).replace(/[a-z]{3}/u, () => random.pick(["\n", "\t", "\u0000", "\u001f"])),
  deep: (_parts, random) => `{"results":${deepJson(random)}}`,
  anything: (_parts, random) => oddJson(random),
};
