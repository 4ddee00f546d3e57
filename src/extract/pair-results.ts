/** A result as far as pairing looks at it: its key, null where it has none; undefined for one that is no object. */
export type KeyedResult = { readonly key: string | null } | undefined;

/** For each record that was sent, in order, the position of its result; undefined where the answer left it out. */
export type Pairing = readonly (number | undefined)[];

const exactly = (key: string): string => key;
/** The service may hand back an address as it stores it: only where no exact one is left. */
const caselessly = (key: string): string => key.trim().toLowerCase();

/** Gives each record still without a result the first unused result of the same key. */
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

/** Gives records the result at their own position, where keys agree as `fits` says. */
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

/** One way to find results by key, tried for what the ways before it left over. */
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
  // Results without a key have their place if every result with one stands at its own.
  const hasNoKey = (index: number) => (results[index]?.key ?? null) === null;
  const inOrder =
    results.length === sentKeys.length &&
    results.every((_, index) => hasNoKey(index) || paired[index] === index);
  if (inOrder) pairByPosition(results, paired, used, hasNoKey);
  return paired;
}

/** Finds the result of each record by `record_id`; unknown ids are ignored, of equal ones the first counts. */
export function pairByRecordId(recordIds: readonly string[], results: readonly KeyedResult[]): Pairing {
  return pair(recordIds, results, [{ normalize: exactly, ownPositionFirst: false }]);
}

/** Finds the result of each address at its own position, else by the address itself. */
export function pairByAddress(addresses: readonly string[], results: readonly KeyedResult[]): Pairing {
  return pair(addresses, results, [
    { normalize: exactly, ownPositionFirst: true },
    { normalize: caselessly, ownPositionFirst: true },
  ]);
}
