import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Random } from "../support/seeded-random.ts";

/** Changes the bytes of a body. */
export type ByteMutation = (bytes: Buffer, random: Random) => Buffer;

/** A body on the wire, with its encoding header. */
export interface WireBody {
  readonly contentEncoding: string | null;
  readonly bytes: Buffer;
}

/** Encodes a body, correctly or not. */
export type EncodingMutation = (bytes: Buffer, random: Random) => WireBody;

/** Bytes that are not, or not quite, UTF-8. */
const BROKEN_UTF8 = [
  "ff",
  "c0af",
  "80",
  "eda080",
  "f5808080",
  "c3",
  "e282",
  "f09f98",
  "efbbbf",
  "00",
] as const;

function spliced(bytes: Buffer, at: number, removed: number, added: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(at + removed)]);
}

/** All kinds of damage to the bytes of the plain body, by name. */
export const BYTE_MUTATIONS: Readonly<Record<string, ByteMutation>> = {
  truncated: (bytes, random) => bytes.subarray(0, random.below(bytes.length)),
  beginning_gone: (bytes, random) => bytes.subarray(1 + random.below(bytes.length)),
  middle_gone: (bytes, random) =>
    spliced(bytes, random.below(bytes.length), 1 + random.below(200), Buffer.alloc(0)),
  bit_flipped: (bytes, random) => {
    const damaged = Buffer.from(bytes);
    for (let i = random.below(4); i >= 0; i--) {
      const at = random.below(damaged.length);
      damaged[at] = (damaged[at] ?? 0) ^ (1 << random.below(8));
    }
    return damaged;
  },
  byte_any: (bytes, random) =>
    spliced(bytes, random.below(bytes.length), 1, Buffer.from([random.below(256)])),
  byte_of_json: (bytes, random) =>
    spliced(
      bytes,
      random.below(bytes.length),
      random.below(2),
      Buffer.from(random.pick(["{", "}", "[", "]", '"', ",", ":", "\\", "0", "-", "e"])),
    ),
  no_utf8: (bytes, random) =>
    spliced(bytes, random.below(bytes.length), random.below(3), Buffer.from(random.pick(BROKEN_UTF8), "hex")),
  repeated: (bytes, random) => {
    const at = random.below(bytes.length);
    return spliced(bytes, at, 0, bytes.subarray(at, at + random.below(500)));
  },
  utf16: (bytes) => Buffer.from(bytes.toString("utf8"), "utf16le"),
  latin1: (bytes) => Buffer.from(bytes.toString("utf8"), "latin1"),
  empty: () => Buffer.alloc(0),
  html: () => Buffer.from("<!DOCTYPE html><html><body>502</body></html>"),
};

const plain = (bytes: Buffer): WireBody => ({ contentEncoding: null, bytes });
const gzipped = (bytes: Buffer): WireBody => ({
  contentEncoding: "gzip",
  bytes: gzipSync(bytes, { level: 1 }),
});

/** All sound, odd and damaged encodings, by name. */
export const ENCODING_MUTATIONS: Readonly<Record<string, EncodingMutation>> = {
  plain,
  gzip: gzipped,
  gzip_cut: (bytes, random) => {
    const whole = gzipped(bytes);
    return { ...whole, bytes: whole.bytes.subarray(0, random.below(whole.bytes.length)) };
  },
  gzip_damaged: (bytes, random) => {
    const whole = gzipped(bytes);
    const damage = random.pick(["bit_flipped", "byte_any", "middle_gone", "repeated"]);
    return { ...whole, bytes: BYTE_MUTATIONS[damage]?.(whole.bytes, random) ?? whole.bytes };
  },
  gzip_two_members: (bytes, random) => {
    const at = random.below(bytes.length);
    return {
      contentEncoding: "gzip",
      bytes: Buffer.concat([gzipSync(bytes.subarray(0, at)), gzipSync(bytes.subarray(at))]),
    };
  },
  gzip_trailing: (bytes, random) => {
    const whole = gzipped(bytes);
    return {
      ...whole,
      bytes: Buffer.concat([whole.bytes, Buffer.alloc(1 + random.below(40), random.below(256))]),
    };
  },
  gzip_wrong_size: (bytes, random) => {
    const whole = gzipped(bytes);
    const damaged = Buffer.from(whole.bytes);
    damaged.writeUInt32LE(random.pick([0, 1, 0xffffffff, 0x7fffffff]), damaged.length - 4);
    return { ...whole, bytes: damaged };
  },
  gzip_unsaid: (bytes) => plain(gzipped(bytes).bytes),
  gzip_only_said: (bytes) => ({ contentEncoding: "gzip", bytes }),
  gzip_twice: (bytes) => gzipped(gzipped(bytes).bytes),
  spelling: (bytes, random) => ({
    ...gzipped(bytes),
    contentEncoding: random.pick(["GZIP", " gzip ", "x-gzip", "gzip, gzip", "gzip;q=1", ""]),
  }),
  deflate: (bytes) => ({ contentEncoding: "deflate", bytes: deflateSync(bytes) }),
  brotli: (bytes) => ({ contentEncoding: "br", bytes: brotliCompressSync(bytes.subarray(0, 2000)) }),
  zstd: (bytes) => ({ contentEncoding: "zstd", bytes: zstdCompressSync(bytes) }),
  identity: (bytes, random) => ({ contentEncoding: random.pick(["identity", "IDENTITY", ""]), bytes }),
  unknown: (bytes, random) => ({
    contentEncoding: random.pick(["utf-8", "chunked", "none", "\u00e9", "a".repeat(2000)]),
    bytes,
  }),
};
