/** A parsed result that is an object. */
export type Result = Readonly<Record<string, unknown>>;

/** Results in the order of the records that were sent; undefined where the answer left one out. */
export type Pairing = readonly (Result | undefined)[];

function isResult(value: unknown): value is Result {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function keyText(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

const exactly = (key: string): string => key;
/** The service may hand back an address as it stores it: only where no exact one is left. */
const caselessly = (key: string): string => key.trim().toLowerCase();

/** Gives each record still without a result the first unused result of the same key. */
function pairByKey(
  sentKeys: readonly string[],
  results: readonly unknown[],
  resultKeys: readonly (string | null)[],
  paired: (Result | undefined)[],
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
    const key = resultKeys[index];
    if (used[index] || !isResult(result) || key === null || key === undefined) continue;
    const position = waiting.get(normalize(key))?.shift();
    if (position === undefined) continue;
    paired[position] = result;
    used[index] = true;
  }
}

/** Gives records the result at their own position, where keys agree as `fits` says. */
function pairByPosition(
  results: readonly unknown[],
  paired: (Result | undefined)[],
  used: boolean[],
  fits: (position: number) => boolean,
): void {
  for (const [index, result] of results.entries()) {
    if (index >= paired.length || used[index] || paired[index] !== undefined) continue;
    if (!isResult(result) || !fits(index)) continue;
    paired[index] = result;
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
  results: readonly unknown[],
  field: string,
  passes: readonly Pass[],
): Pairing {
  const paired: (Result | undefined)[] = Array.from({ length: sentKeys.length });
  const used: boolean[] = Array.from({ length: results.length }, () => false);
  const resultKeys = results.map((result) => (isResult(result) ? keyText(result[field]) : null));
  for (const { normalize, ownPositionFirst } of passes) {
    const fits = (position: number) => {
      const [sent, received] = [sentKeys[position], resultKeys[position]];
      return (
        typeof sent === "string" && typeof received === "string" && normalize(sent) === normalize(received)
      );
    };
    if (ownPositionFirst) pairByPosition(results, paired, used, fits);
    pairByKey(sentKeys, results, resultKeys, paired, used, normalize);
  }
  // Results without a key have their place if every result with one stands at its own.
  const inOrder =
    results.length === sentKeys.length &&
    resultKeys.every(
      (key, index) => key === null || (paired[index] !== undefined && paired[index] === results[index]),
    );
  if (inOrder) pairByPosition(results, paired, used, (position) => resultKeys[position] === null);
  return paired;
}

/** Finds the result of each record by `record_id`; unknown ids are ignored, of equal ones the first counts. */
export function pairByRecordId(recordIds: readonly string[], results: readonly unknown[]): Pairing {
  return pair(recordIds, results, "record_id", [{ normalize: exactly, ownPositionFirst: false }]);
}

/** Finds the result of each address at its own position, else by the address itself. */
export function pairByAddress(addresses: readonly string[], results: readonly unknown[]): Pairing {
  return pair(addresses, results, "email_address", [
    { normalize: exactly, ownPositionFirst: true },
    { normalize: caselessly, ownPositionFirst: true },
  ]);
}
