/** Key of a result; null if it has none, undefined if the result is not an object. */
export type KeyedResult = { readonly key: string | null } | undefined;

/** Index of the result of each record, in request order; undefined if the answer omits it. */
export type Pairing = readonly (number | undefined)[];

const exactly = (key: string): string => key;
/** The service may normalize addresses; used only for results without an exact match. */
const caselessly = (key: string): string => key.trim().toLowerCase();

/** Assigns the first unused result with an equal key to each record without a result. */
function pairByKey(
  sentKeys: readonly string[],
  results: readonly KeyedResult[],
  paired: (number | undefined)[],
  used: boolean[],
  normalize: (key: string) => string,
): void {
  const waiting = new Map<string, number[]>();
  for (const [position, key] of sentKeys.entries()) {
    if (paired[position] !== undefined) continue;
    const positions = waiting.get(normalize(key));
    if (positions) positions.push(position);
    else waiting.set(normalize(key), [position]);
  }
  for (const [index, result] of results.entries()) {
    const key = result?.key;
    if (used[index] || key === null || key === undefined) continue;
    const position = waiting.get(normalize(key))?.shift();
    if (position === undefined) continue;
    paired[position] = index;
    used[index] = true;
  }
}

/** Assigns results at the record's own position if `fits` is true. */
function pairByPosition(
  results: readonly KeyedResult[],
  paired: (number | undefined)[],
  used: boolean[],
  fits: (position: number) => boolean,
): void {
  for (const [index, result] of results.entries()) {
    if (index >= paired.length || used[index] || paired[index] !== undefined) continue;
    if (result === undefined || !fits(index)) continue;
    paired[index] = index;
    used[index] = true;
  }
}

/** Pass of matching by key, applied to the results left by earlier passes. */
interface Pass {
  readonly normalize: (key: string) => string;
  readonly ownPositionFirst: boolean;
}

function pair(
  sentKeys: readonly string[],
  results: readonly KeyedResult[],
  passes: readonly Pass[],
): Pairing {
  const paired: (number | undefined)[] = Array.from({ length: sentKeys.length });
  const used: boolean[] = Array.from({ length: results.length }, () => false);
  for (const { normalize, ownPositionFirst } of passes) {
    const fits = (position: number) => {
      const [sent, received] = [sentKeys[position], results[position]?.key];
      return (
        typeof sent === "string" && typeof received === "string" && normalize(sent) === normalize(received)
      );
    };
    if (ownPositionFirst) pairByPosition(results, paired, used, fits);
    pairByKey(sentKeys, results, paired, used, normalize);
  }
  // Results without a key belong to their position if every result with a key is at its own position.
  const hasNoKey = (index: number) => (results[index]?.key ?? null) === null;
  const inOrder =
    results.length === sentKeys.length &&
    results.every((_, index) => hasNoKey(index) || paired[index] === index);
  if (inOrder) pairByPosition(results, paired, used, hasNoKey);
  return paired;
}

/** Finds the result of each record by `record_id`. Ignores unknown IDs and repeated ones. */
export function pairByRecordId(recordIds: readonly string[], results: readonly KeyedResult[]): Pairing {
  return pair(recordIds, results, [{ normalize: exactly, ownPositionFirst: false }]);
}

/** Finds the result of each address at its own position, otherwise by the address. */
export function pairByAddress(addresses: readonly string[], results: readonly KeyedResult[]): Pairing {
  return pair(addresses, results, [
    { normalize: exactly, ownPositionFirst: true },
    { normalize: caselessly, ownPositionFirst: true },
  ]);
}
