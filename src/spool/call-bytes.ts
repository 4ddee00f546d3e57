import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { type Body, chunksOf, isFilePart } from "../file-part.ts";
import { writeAll } from "./durable-file.ts";

/** Content of a spool file, or the reason why it can't be used. */
export type CallContent =
  | { readonly kind: "whole"; readonly header: unknown; readonly body: Body }
  | { readonly kind: "damaged"; readonly reason: DamageReason }
  /** Written by a later version. */
  | { readonly kind: "unknown_form" };

/** Kind of damage. */
type DamageReason = "no_spool_file" | "wrong_length" | "wrong_checksum" | "no_header";

const FAMILY = "PETLSPL";
const MAGIC = Buffer.from(`${FAMILY}1`, "latin1");
const CHECKSUM_BYTES = 32;
const LENGTHS_AT = MAGIC.length;
const CHECKSUM_AT = LENGTHS_AT + 8;
/** Magic, length of the header and of the body (32 bits each, big-endian), SHA-256 of the lengths, header and body. */
const PRELUDE_BYTES = CHECKSUM_AT + CHECKSUM_BYTES;

/** Largest body: its length has 32 bits. */
const MAX_BODY_BYTES = 2 ** 32 - 1;
/** Files above this size aren't read into memory; answers aim at 4 MB before compression. */
const LARGE_FILE_BYTES = 40 * 1024 * 1024;

function hashOf(...parts: readonly Buffer[]): Hash {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash;
}

function startOf(header: Buffer, bodyBytes: number): Buffer {
  if (bodyBytes > MAX_BODY_BYTES) {
    throw new RangeError(`A body of ${bodyBytes} bytes is larger than ${MAX_BODY_BYTES}.`);
  }
  const start = Buffer.alloc(PRELUDE_BYTES);
  MAGIC.copy(start);
  start.writeUInt32BE(header.length, LENGTHS_AT);
  start.writeUInt32BE(bodyBytes, LENGTHS_AT + 4);
  return start;
}

/** Encodes a call as consecutive pieces of a file; doesn't copy the body. */
export function encodeCall(header: object, body: Buffer): readonly [Buffer, Buffer] {
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const start = startOf(text, body.length);
  hashOf(start.subarray(LENGTHS_AT, CHECKSUM_AT), text, body).digest().copy(start, CHECKSUM_AT);
  return [Buffer.concat([start, text]), body];
}

/** Writes a call to an empty file; returns the file's size. */
export async function writeCall(file: FileHandle, header: object, body: Body): Promise<number> {
  if (!isFilePart(body)) {
    const pieces = encodeCall(header, body);
    for (const piece of pieces) await writeAll(file, piece);
    return pieces[0].length + pieces[1].length;
  }
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const start = startOf(text, body.length);
  const hash = hashOf(start.subarray(LENGTHS_AT, CHECKSUM_AT), text);
  await writeAll(file, Buffer.concat([start, text]));
  for await (const chunk of chunksOf(body)) {
    hash.update(chunk);
    await writeAll(file, chunk);
  }
  // Known only now; its place is before the header.
  await file.write(hash.digest(), 0, CHECKSUM_BYTES, CHECKSUM_AT);
  return start.length + text.length + body.length;
}

/** Reads a file; its checksum covers everything used. A large body is checked, and stays on disk. */
export async function readCall(path: string): Promise<CallContent> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    if (size <= LARGE_FILE_BYTES) return decodeCall(await file.readFile());
    const start = Buffer.alloc(PRELUDE_BYTES);
    await file.read(start, 0, PRELUDE_BYTES, 0);
    const found = checkStart(start, size);
    if ("kind" in found) return found;
    const text = Buffer.alloc(found.bodyAt - PRELUDE_BYTES);
    await file.read(text, 0, text.length, PRELUDE_BYTES);
    const hash = hashOf(start.subarray(LENGTHS_AT, CHECKSUM_AT), text);
    const body = { path, start: found.bodyAt, length: size - found.bodyAt };
    for await (const chunk of chunksOf(body)) hash.update(chunk);
    return contentOf(start, text, body, hash);
  } finally {
    await file.close();
  }
}

/** Decodes a file that is in memory. */
export function decodeCall(bytes: Buffer): CallContent {
  const found = checkStart(bytes, bytes.length);
  if ("kind" in found) return found;
  const text = bytes.subarray(PRELUDE_BYTES, found.bodyAt);
  const body = bytes.subarray(found.bodyAt);
  return contentOf(bytes, text, body, hashOf(bytes.subarray(LENGTHS_AT, CHECKSUM_AT), text, body));
}

/** Checks the beginning of a file of this size; returns where its body begins. */
function checkStart(start: Buffer, size: number): CallContent | { readonly bodyAt: number } {
  if (size < PRELUDE_BYTES) return { kind: "damaged", reason: "wrong_length" };
  const magic = start.subarray(0, MAGIC.length);
  if (!magic.equals(MAGIC)) {
    const isOfFamily = /^[2-9A-Z]$/u.test(magic.toString("latin1").replace(FAMILY, ""));
    return isOfFamily ? { kind: "unknown_form" } : { kind: "damaged", reason: "no_spool_file" };
  }
  const bodyAt = PRELUDE_BYTES + start.readUInt32BE(LENGTHS_AT);
  const isWhole = size === bodyAt + start.readUInt32BE(LENGTHS_AT + 4);
  return isWhole ? { bodyAt } : { kind: "damaged", reason: "wrong_length" };
}

function contentOf(start: Buffer, text: Buffer, body: Body, hash: Hash): CallContent {
  if (!hash.digest().equals(start.subarray(CHECKSUM_AT, PRELUDE_BYTES))) {
    return { kind: "damaged", reason: "wrong_checksum" };
  }
  try {
    return { kind: "whole", header: JSON.parse(text.toString("utf8")), body };
  } catch {
    return { kind: "damaged", reason: "no_header" };
  }
}
