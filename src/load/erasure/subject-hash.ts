import { createHash, hash, randomBytes } from "node:crypto";
import { withoutBlanksAround } from "../inputs/input-fields.ts";

/** Identifier of a person: one value of one kind. */
export type Subject =
  | { readonly kind: "pid"; readonly pid: string }
  | { readonly kind: "email"; readonly address: string }
  | { readonly kind: "source_key"; readonly source: string; readonly sourceKey: string };

/** Prepared key of hashes: HMAC-SHA256 is the hash of `outer` and the hash of `inner` and the text. */
export interface ErasureKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  /** 64 bytes each. */
  readonly inner: Buffer;
  readonly outer: Buffer;
}

/** Block size of SHA-256. */
const BLOCK_BYTES = 64;

/** Prepares a secret; the same text gives the same key everywhere. */
export function erasureKeyOf(secret: string): ErasureKey {
  const bytes = Buffer.from(secret, "utf8");
  const block = Buffer.alloc(BLOCK_BYTES);
  (bytes.length > BLOCK_BYTES ? createHash("sha256").update(bytes).digest() : bytes).copy(block);
  const pad = (byte: number) => Buffer.from(block.map((b) => b ^ byte));
  return {
    id: hash("sha256", `person-etl erasure key ${secret}`, "hex").slice(0, 16),
    inner: pad(0x36),
    outer: pad(0x5c),
  };
}

/** Generates a key for a warehouse without a configured one. */
export function makeErasureSecret(): string {
  return randomBytes(32).toString("hex");
}

/**
 * Normalizes an address for comparison: trimmed, with the letters A to Z in lower case. Other letters stay
 * unchanged, because databases disagree about their case.
 */
export function normalizedEmail(address: string): string {
  return withoutBlanksAround(address).replaceAll(/[A-Z]/gu, (letter) =>
    String.fromCharCode(letter.charCodeAt(0) + 32),
  );
}

/** Prefix of a source's row keys in the hashed text. */
export function sourceKeyPrefix(source: string): string {
  return `source_key:${Buffer.byteLength(source, "utf8")}:${source}:`;
}

function textOf(subject: Subject): string {
  if (subject.kind === "pid") return `pid:${subject.pid}`;
  if (subject.kind === "email") return `email:${normalizedEmail(subject.address)}`;
  return sourceKeyPrefix(subject.source) + subject.sourceKey;
}

/** Keyed hash of a subject, hex. */
export function subjectHash(key: ErasureKey, subject: Subject): string {
  const inner = hash("sha256", Buffer.concat([key.inner, Buffer.from(textOf(subject), "utf8")]), "buffer");
  return hash("sha256", Buffer.concat([key.outer, inner]), "hex");
}
