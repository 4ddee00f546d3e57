/**
 * Most similar known name, ignoring case, `_` and `-`; else the only one that contains the given text or is part of it
 * (`enrich` for `enrich_customers`). Null if none is similar.
 */
export function suggest(given: string, known: readonly string[]): string | null {
  const wanted = plain(given);
  if (wanted === "" || wanted.length > 64) return null;
  const [best] = nearest(wanted, known, (name) => editDistance(wanted, plain(name)));
  if (best !== undefined) return best;
  const related = known.filter((name) => {
    const [shorter = "", longer = ""] = [wanted, plain(name)].toSorted((a, b) => a.length - b.length);
    return shorter.length >= 4 && longer.includes(shorter);
  });
  return related.length === 1 ? (related[0] ?? null) : null;
}

/** Known things whose distance from a name is at most a third of its length, or 1; the nearest first. */
export function nearest<Known>(
  wanted: string,
  known: readonly Known[],
  distanceTo: (one: Known) => number,
): readonly Known[] {
  const most = Math.max(1, Math.floor(wanted.length / 3));
  return known
    .map((one) => ({ one, distance: distanceTo(one) }))
    .filter(({ distance }) => distance <= most)
    .toSorted((a, b) => a.distance - b.distance)
    .map(({ one }) => one);
}

/** Text as names are compared. */
export function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_\-\s]/g, "");
}

/** Minimum number of insertions, deletions and replacements between two texts. */
export function editDistance(a: string, b: string): number {
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (const [i, letter] of a.split("").entries()) {
    const row = [i + 1];
    for (const [j, other] of b.split("").entries()) {
      const [left = 0, above = 0, diagonal = 0] = [row[j], last[j + 1], last[j]];
      row.push(Math.min(left + 1, above + 1, diagonal + (letter === other ? 0 : 1)));
    }
    last = row;
  }
  return last.at(-1) ?? 0;
}

/** Names under which other programs keep several environments in one file. */
export const ENVIRONMENTS = /^(?:profiles?|targets?|env(?:ironment)?s?|dev|prod|production|staging)$/i;
