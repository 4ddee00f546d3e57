import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { instantText } from "../schemas/convert.ts";

declare global {
  interface JSON {
    /** Like `parse`; the reviver is also given the source text of strings, numbers, booleans and null (ES2025). */
    parse(
      text: string,
      reviver: (this: unknown, key: string, value: unknown, context: { readonly source?: string }) => unknown,
    ): unknown;
  }
}

/** Largest body after decompression: a small body must not be able to fill the memory. */
export const MAX_PLAIN_BYTES = 256 * 1024 * 1024;

/** The body of a response, decompressed. */
export type PlainBody =
  | { readonly kind: "plain"; readonly bytes: Buffer }
  | { readonly kind: "unreadable"; readonly reason: string };

/** The answer to a lookup: one parsed result for each record, in the service's order. */
export interface Envelope {
  readonly kind: "envelope";
  readonly results: readonly unknown[];
  readonly apiRequestId: string | null;
  /** UTC, microseconds kept; null when absent or no timestamp. */
  readonly requestCompletedAt: string | null;
  /** Every further key of the envelope: what the interface doesn't name. */
  readonly unknownFields: Readonly<Record<string, unknown>>;
  /** The body holds an escaped NUL or surrogate: only then its text needs a closer look. */
  readonly hasControlText: boolean;
  /** Size of the body after decompression. */
  readonly plainBytes: number;
}

/** A body that is no answer: not JSON, or JSON without a list of results. */
export interface Unreadable {
  readonly kind: "unreadable";
  readonly reason: string;
}

const gunzipAsync = promisify(gunzip);

/** Largest piece that is set aside at once on the word of a body's own trailer. */
const MAX_CHUNK_BYTES = 8 * 1024 * 1024;

/** The size that a gzip body states at its end, within bounds: one piece of that size halves the work. */
function plainSizeOf(body: Buffer): number {
  const stated = body.length >= 18 ? body.readUInt32LE(body.length - 4) : 0;
  return Math.min(Math.max(stated + 1, 16 * 1024), MAX_CHUNK_BYTES);
}

/** Decompresses a body within bounds, off the main thread. */
export async function decompress(
  body: Buffer,
  contentEncoding: string | null,
  maxBytes: number = MAX_PLAIN_BYTES,
): Promise<PlainBody> {
  const encoding = contentEncoding?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") return { kind: "plain", bytes: body };
  if (encoding !== "gzip" && encoding !== "x-gzip") return { kind: "unreadable", reason: "unknown_encoding" };
  try {
    const chunkSize = plainSizeOf(body);
    return { kind: "plain", bytes: await gunzipAsync(body, { maxOutputLength: maxBytes, chunkSize }) };
  } catch (error) {
    const tooLarge = error instanceof RangeError;
    return { kind: "unreadable", reason: tooLarge ? "body_too_large" : "broken_compression" };
  }
}

/** Numbers that may not fit a double: 16 characters of digits and point, or an exponent of three digits. */
const LONG_NUMBER = /[[:,\s](-?(?:\d[\d.]{15,}(?:[eE][+-]?\d+)?|\d[\d.]*[eE][+-]?\d{3,}))/gu;

/** Significant digits that every double carries, whatever its magnitude. */
const DOUBLE_DIGITS = 15;

/** Whether a number read as a double and written again is the same number. */
function isExact(source: string): boolean {
  const value = Number(source);
  if (String(value) === source) return true;
  const digits = source
    .replace(/[eE].*$/u, "")
    .replaceAll(/[-.]/gu, "")
    .replace(/^0+/u, "");
  if (digits === "") return true;
  // Beyond these magnitudes doubles overflow, or lose digits on their way to zero.
  const magnitude = Math.abs(value);
  return digits.length <= DOUBLE_DIGITS && magnitude > 1e-300 && magnitude < 1e300;
}

function hasInexactNumber(text: string): boolean {
  for (const match of text.matchAll(LONG_NUMBER)) {
    if (!isExact(match[1] ?? "")) return true;
  }
  return false;
}

/** Parses JSON; a number that a double can't carry exactly becomes a `JSON.rawJSON` of its source text. */
export function parseExact(text: string): unknown {
  if (!hasInexactNumber(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, (_key, value, { source }) =>
      typeof value === "number" && source !== undefined && !isExact(source) ? JSON.rawJSON(source) : value,
    );
  } catch (error) {
    // A reviver doesn't go as deep as parsing does: digits may be lost then, but not a paid answer.
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
}

/** An id as the service may send it, number or text; null when it is neither or of unlikely length. */
export function readId(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value.length <= 200 && /^[\x20-\x7e]+$/u.test(value) ? value : null;
}

/** NUL, or any surrogate: an escaped pair can't be told from a lone one without parsing. */
const CONTROL_ESCAPE = /\\u(?:0000|[dD][89a-fA-F])/u;

/** Reads the body of a 200 answer. */
export function readEnvelope(bytes: Buffer): Envelope | Unreadable {
  // Bytes that are no UTF-8 become U+FFFD: one bad character must not cost a whole paid answer.
  const text = bytes.toString("utf8");
  let parsed: unknown;
  try {
    parsed = parseExact(text.startsWith("\uFEFF") ? text.slice(1) : text);
  } catch {
    return { kind: "unreadable", reason: "no_json" };
  }
  if (typeof parsed !== "object" || parsed === null || !("results" in parsed)) {
    return { kind: "unreadable", reason: "no_results" };
  }
  const { results, api_request_id, request_completed_at, ...unknownFields }: Record<string, unknown> = {
    ...parsed,
  };
  if (!Array.isArray(results)) return { kind: "unreadable", reason: "no_results" };
  return {
    kind: "envelope",
    results,
    apiRequestId: readId(api_request_id),
    requestCompletedAt: instantText(request_completed_at),
    unknownFields,
    hasControlText: CONTROL_ESCAPE.test(text),
    plainBytes: bytes.length,
  };
}

/** Parses a body that may be anything, as those of errors are; undefined when it is no JSON. */
export function readJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
