import { mkdtemp, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { decodeCall, encodeCall, readCall, writeCall } from "../../src/spool/spool.ts";
import * as fc from "../support/fast-check.ts";

const header = fc.dictionary(fc.string(), fc.jsonValue());
const body = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
const file = fc.tuple(header, body).map(([header, body]) => Buffer.concat([...encodeCall(header, body)]));

test("a call is read as it was written, with any content", () => {
  fc.assert(
    fc.property(header, body, (header, body) => {
      const content = decodeCall(Buffer.concat([...encodeCall(header, body)]));
      expect(content).toEqual({ kind: "whole", header: JSON.parse(JSON.stringify(header)), body });
    }),
  );
});

test("a file truncated anywhere is refused", () => {
  fc.assert(
    fc.property(file, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (file, share) => {
      expect(decodeCall(file.subarray(0, Math.floor(file.length * share))).kind).toBe("damaged");
    }),
  );
});

test("a file with extra bytes at its end is refused", () => {
  fc.assert(
    fc.property(file, fc.uint8Array({ minLength: 1, maxLength: 9 }), (file, more) => {
      expect(decodeCall(Buffer.concat([file, more]))).toEqual({ kind: "damaged", reason: "wrong_length" });
    }),
  );
});

test("a file with one flipped bit anywhere is refused", () => {
  fc.assert(
    fc.property(file, fc.nat(), fc.integer({ min: 0, max: 7 }), (file, at, bit) => {
      const flipped = Buffer.from(file);
      const position = at % file.length;
      flipped.writeUInt8((flipped[position] ?? 0) ^ (1 << bit), position);
      expect(decodeCall(flipped).kind).not.toBe("whole");
    }),
    { numRuns: 500 },
  );
});

test.each([
  ["an empty file", "", "damaged"],
  ["a file of somebody else's", "x".repeat(100), "damaged"],
  ["a file of a later form", `PETLSPL2${"x".repeat(100)}`, "unknown_form"],
] as const)("%s is refused", (_name, text, kind) => {
  expect(decodeCall(Buffer.from(text, "latin1")).kind).toBe(kind);
});

test("the format on disk is stable: later versions can read today's files", () => {
  const [head, rest] = encodeCall({ form: 1 }, Buffer.from("answer"));
  expect(Buffer.concat([head, rest]).toString("hex")).toBe(
    "5045544c53504c31" +
      "0000000a" +
      "00000006" +
      "c43af64183194db4f051680f396fe69baf9944aa55eca2e615042ea8a29f3c60" +
      Buffer.from('{"form":1}answer').toString("hex"),
  );
});

describe("a large body", () => {
  const large = Buffer.alloc(48 * 1024 * 1024, "xyz");

  async function written(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), "call-bytes-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const [source, path] = [join(folder, "body"), join(folder, "call")];
    await writeFile(source, Buffer.concat([Buffer.from("before"), large]));
    const file = await open(path, "wx");
    const body = { path: source, start: 6, length: large.length };
    expect(await writeCall(file, { form: 1 }, body)).toBe((await file.stat()).size);
    await file.close();
    return path;
  }

  test("is copied from one file to another, byte for byte as from memory", async () => {
    const path = await written();
    const bytes = await readFile(path);
    expect(bytes.equals(Buffer.concat([...encodeCall({ form: 1 }, large)]))).toBe(true);
  });

  test("stays on disk when its file is read", async () => {
    const path = await written();
    const start = (await stat(path)).size - large.length;
    expect(await readCall(path)).toEqual({
      kind: "whole",
      header: { form: 1 },
      body: { path, start, length: large.length },
    });
  });

  test.each([
    [12, "wrong_length"],
    [20, "wrong_checksum"],
    [40_000_000, "wrong_checksum"],
  ])("with a changed byte at %s is damaged", async (at, reason) => {
    const path = await written();
    const file = await open(path, "r+");
    await file.write(Buffer.from("#"), 0, 1, at);
    await file.close();
    expect(await readCall(path)).toEqual({ kind: "damaged", reason });
  });
});
