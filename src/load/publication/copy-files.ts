import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { to as copyTo } from "pg-copy-streams";
import type { Session } from "../db/session.ts";

/** Files of one COPY. */
export interface CopiedFiles {
  readonly files: readonly string[];
  readonly lines: number;
  /** Bytes of the longest line. */
  readonly longestLineBytes: number;
}

/** Form of the lines: JSON objects, or COPY's text after an empty column. */
export type FileFormat = "json" | "text";

/**
 * COPY options and gzip level by form; null writes the file uncompressed. CSV with a quote that JSON never contains writes the only
 * column unchanged.
 */
const formats: Readonly<Record<FileFormat, { readonly copy: string; readonly gzip: number | null }>> = {
  json: { copy: "FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02'", gzip: 3 },
  // Read once, on the same machine: compressing costs more than it saves.
  text: { copy: "FORMAT text", gzip: null },
};

/** Uncompressed bytes per file: loads read several files in parallel. */
const FILE_BYTES = 256 * 1024 * 1024;
/** Received bytes that are worth a collection. */
const GARBAGE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

interface OpenFile {
  readonly input: Writable;
  readonly written: Promise<void>;
  bytes: number;
}

function openFile(path: string, level: number | null): OpenFile {
  const target = createWriteStream(path, { flags: "w", mode: 0o600 });
  let input: Writable = target;
  if (level !== null) {
    const gzip = createGzip({ level });
    gzip.on("error", (error) => target.destroy(error));
    gzip.pipe(target);
    input = gzip;
  }
  const written = finished(target);
  // A full disk surfaces at the next write or at the end; until then, the rejection must count as handled.
  written.catch(() => {});
  return { input, written, bytes: 0 };
}

async function write(file: OpenFile, chunk: Buffer): Promise<void> {
  file.bytes += chunk.length;
  if (file.input.write(chunk)) return;
  // A failed file never drains.
  await Promise.race([once(file.input, "drain"), file.written]);
}

async function close(file: OpenFile): Promise<void> {
  file.input.end();
  await file.written;
}

/** Streams the rows of a query into files `PREFIX-0`, …, one row per line. */
export async function copyToFiles(
  session: Session,
  query: string,
  prefix: string,
  format: FileFormat,
): Promise<CopiedFiles> {
  const { copy, gzip } = formats[format];
  const stream = session.client.query(copyTo(`COPY (${query}) TO STDOUT WITH (${copy})`));
  const files: string[] = [];
  let [lines, bytes, lineBytes, longestLineBytes] = [0, 0, 0, 0];
  let file: OpenFile | null = null;
  let failure: unknown = null;
  const next = () => {
    const path = `${prefix}-${files.length}${gzip === null ? "" : ".gz"}`;
    files.push(path);
    return openFile(path, gzip);
  };
  for await (const chunk of stream) {
    // The connection can be reused only after the COPY is read to its end.
    if (failure !== null) continue;
    const received: Buffer = chunk;
    let start = 0;
    for (let at = received.indexOf(NEWLINE); at >= 0; at = received.indexOf(NEWLINE, start)) {
      longestLineBytes = Math.max(longestLineBytes, lineBytes + at + 1 - start);
      lines += 1;
      lineBytes = 0;
      start = at + 1;
    }
    lineBytes += received.length - start;
    bytes += received.length;
    try {
      file ??= next();
      if (start > 0 && file.bytes + start >= FILE_BYTES) {
        await write(file, received.subarray(0, start));
        await close(file);
        file = null;
        if (start === received.length) continue;
        file = next();
        await write(file, received.subarray(start));
      } else await write(file, received);
    } catch (error) {
      failure = error;
    }
  }
  if (failure !== null) throw failure;
  if (file) await close(file);
  // V8 counts few of the bytes received, and runs no collection while the destination works.
  if (bytes > GARBAGE_BYTES) globalThis.gc?.();
  return { files, lines, longestLineBytes };
}
