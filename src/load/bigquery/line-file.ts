import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** A file of lines that is written once, from its beginning to its end. */
export interface LineFile {
  /** Appends a line, with its line break. */
  append(line: Buffer): void;
  /** Writes what waits, where that is much. */
  settle(): Promise<void>;
  /** Writes the rest. Idempotent. */
  close(): Promise<void>;
}

/** Bytes that wait in memory at most. */
const BUFFER_BYTES = 1024 * 1024;

/** Opens a file that nobody else may read; it is made with the first line. */
export function openLineFile(path: string): LineFile {
  let handle: FileHandle | null = null;
  let waiting: Buffer[] = [];
  let waitingBytes = 0;

  async function flush(): Promise<void> {
    if (waiting.length === 0) return;
    handle ??= await open(path, "w", 0o600);
    const lines = waiting;
    waiting = [];
    waitingBytes = 0;
    await handle.writev(lines);
  }

  return {
    append(line) {
      waiting.push(line);
      waitingBytes += line.length;
    },
    async settle() {
      if (waitingBytes > BUFFER_BYTES) await flush();
    },
    async close() {
      await flush();
      const opened = handle;
      handle = null;
      await opened?.close();
    },
  };
}

const NEWLINE = 0x0a;

/** The lines of a file without their breaks. Not by node:readline, to which more than a line break ends a line. */
export async function* readLines(path: string): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  for await (const read of createReadStream(path, { highWaterMark: BUFFER_BYTES })) {
    // A stream without an encoding gives buffers.
    const chunk = read as Buffer;
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      const rest = chunk.subarray(from, end);
      yield begun.length === 0 ? rest : Buffer.concat([...begun, rest]);
      begun = [];
      from = end + 1;
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
  }
  if (begun.length > 0) yield Buffer.concat(begun);
}
