import { createHash } from "node:crypto";

/** Content of a spool file, or the reason why it can't be used. */
export type CallContent =
  | { readonly kind: "whole"; readonly header: unknown; readonly body: Buffer }
  | { readonly kind: "damaged"; readonly reason: DamageReason }
  /** Written by a later version. */
  | { readonly kind: "unknown_form" };

/** Kind of damage. */
export type DamageReason = "no_spool_file" | "wrong_length" | "wrong_checksum" | "no_header";

const FAMILY = "PETLSPL";
const MAGIC = Buffer.from(`${FAMILY}1`, "latin1");
const CHECKSUM_BYTES = 32;
const LENGTHS_AT = MAGIC.length;
const CHECKSUM_AT = LENGTHS_AT + 8;
/** Magic, length of the header and of the body (32 bits each, big-endian), SHA-256 of the lengths, header and body. */
const PRELUDE_BYTES = CHECKSUM_AT + CHECKSUM_BYTES;

/** Largest body of a file: the HTTP client rejects larger ones. */
export const MAX_BODY_BYTES = 64 * 1024 * 1024;

function checksumOf(...parts: readonly Buffer[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** Encodes a call as consecutive pieces of a file; doesn't copy the body. */
export function encodeCall(header: object, body: Buffer): readonly [Buffer, Buffer] {
  if (body.length > MAX_BODY_BYTES) {
    throw new RangeError(`A body of ${body.length} bytes is larger than ${MAX_BODY_BYTES}.`);
  }
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const prelude = Buffer.alloc(PRELUDE_BYTES);
  MAGIC.copy(prelude);
  prelude.writeUInt32BE(text.length, LENGTHS_AT);
  prelude.writeUInt32BE(body.length, LENGTHS_AT + 4);
  checksumOf(prelude.subarray(LENGTHS_AT, CHECKSUM_AT), text, body).copy(prelude, CHECKSUM_AT);
  return [Buffer.concat([prelude, text]), body];
}

/** Decodes a file; its checksum covers everything used. */
export function decodeCall(bytes: Buffer): CallContent {
  if (bytes.length < PRELUDE_BYTES) return { kind: "damaged", reason: "wrong_length" };
  const magic = bytes.subarray(0, MAGIC.length);
  if (!magic.equals(MAGIC)) {
    const isOfFamily = /^[2-9A-Z]$/u.test(magic.toString("latin1").replace(FAMILY, ""));
    return isOfFamily ? { kind: "unknown_form" } : { kind: "damaged", reason: "no_spool_file" };
  }
  const bodyAt = PRELUDE_BYTES + bytes.readUInt32BE(LENGTHS_AT);
  if (bytes.length !== bodyAt + bytes.readUInt32BE(LENGTHS_AT + 4)) {
    return { kind: "damaged", reason: "wrong_length" };
  }
  const text = bytes.subarray(PRELUDE_BYTES, bodyAt);
  const body = bytes.subarray(bodyAt);
  const checksum = checksumOf(bytes.subarray(LENGTHS_AT, CHECKSUM_AT), text, body);
  if (!checksum.equals(bytes.subarray(CHECKSUM_AT, PRELUDE_BYTES))) {
    return { kind: "damaged", reason: "wrong_checksum" };
  }
  try {
    return { kind: "whole", header: JSON.parse(text.toString("utf8")), body };
  } catch {
    return { kind: "damaged", reason: "no_header" };
  }
}
