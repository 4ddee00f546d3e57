/**
 * Results of an answer as UTF-8 JSON texts, separated by commas: encoded immediately, so
 * that thousands of long strings don't stay in memory until the answer is assembled.
 */
export interface ResultList {
  readonly bytes: Buffer;
  /** End of each text (exclusive); the next one starts after a comma. */
  readonly ends: readonly number[];
}

/** Collects results. */
interface ResultWriter {
  add(text: string): void;
  finish(): ResultList;
}

const COMMA = 0x2c;
/** UTF-8 bytes that one UTF-16 unit can take. */
const MAX_BYTES_PER_UNIT = 3;

/** Starts a list; `expectedBytes` is a guess that saves copying. */
export function writeResults(expectedBytes: number): ResultWriter {
  let bytes = Buffer.allocUnsafe(Math.max(expectedBytes, 1024));
  let length = 0;
  const ends: number[] = [];
  return {
    add(text) {
      const needed = length + 1 + text.length * MAX_BYTES_PER_UNIT;
      if (needed > bytes.length) {
        const larger = Buffer.allocUnsafe(Math.max(needed, bytes.length * 2));
        bytes.copy(larger, 0, 0, length);
        bytes = larger;
      }
      if (ends.length > 0) bytes[length++] = COMMA;
      length += bytes.write(text, length);
      ends.push(length);
    },
    finish: () => ({ bytes: bytes.subarray(0, length), ends }),
  };
}

/** The list of these texts. */
export function listOf(texts: readonly string[]): ResultList {
  const writer = writeResults(texts.reduce((sum, text) => sum + text.length, 0) * 2);
  for (const text of texts) writer.add(text);
  return writer.finish();
}

/** The texts of a list. */
export function textsOf({ bytes, ends }: ResultList): readonly string[] {
  return ends.map((end, i) => bytes.toString("utf8", i === 0 ? 0 : (ends[i - 1] ?? 0) + 1, end));
}
