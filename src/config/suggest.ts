/**
 * Most similar known name, ignoring case, `_` and `-`; else the only one that contains the given text or is part of it
 * (`enrich` for `enrich_customers`). Null if none is similar.
 */
export function suggest(given: string, known: readonly string[]): string | null {
  const wanted = plain(given);
  if (wanted === "" || wanted.length > 64) return null;
  return mostSimilar(wanted, known) ?? onlyRelated(wanted, known);
}

function onlyRelated(wanted: string, known: readonly string[]): string | null {
  const related = known.filter((name) => {
    const [shorter = "", longer = ""] = [wanted, plain(name)].toSorted((a, b) => a.length - b.length);
    return shorter.length >= 4 && longer.includes(shorter);
  });
  return related.length === 1 ? (related[0] ?? null) : null;
}

function mostSimilar(wanted: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(wanted, plain(name));
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[_\-\s]/g, "");
}

/** Minimum number of insertions, deletions, replacements and swaps between two texts. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let least = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) least = Math.min(least, at(beforeLast, j - 2) + 1);
      row.push(least);
    }
    [beforeLast, last] = [last, row];
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
