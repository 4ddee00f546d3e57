import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { decompress } from "../../src/extract/answer-body.ts";

describe("compression", () => {
  it("that is cut, unknown or a bomb makes a body unreadable", async () => {
    const whole = gzipSync("hello ".repeat(1000));
    expect(await decompress(whole.subarray(0, 20), "gzip")).toEqual({
      kind: "unreadable",
      reason: "broken_compression",
    });
    expect(await decompress(whole, "br")).toEqual({ kind: "unreadable", reason: "unknown_encoding" });
    expect(await decompress(gzipSync(Buffer.alloc(1_000_000)), "gzip", 100_000)).toEqual({
      kind: "unreadable",
      reason: "body_too_large",
    });
  });

  it("of several members is a bomb too, though the last one states a small size", async () => {
    const bomb = gzipSync(Buffer.alloc(40 * 1024 * 1024));
    expect(await decompress(Buffer.concat([bomb, gzipSync("")]), "gzip")).toEqual({
      kind: "unreadable",
      reason: "body_too_large",
    });
  });
});
