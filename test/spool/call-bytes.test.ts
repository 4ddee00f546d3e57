import { mkdtemp, open, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { readCall, writeCall } from "../../src/spool/spool.ts";
import * as fc from "../support/fast-check.ts";
import { sized } from "../support/test-size.ts";

const header = fc.dictionary(fc.string(), fc.jsonValue());
const body = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "call-bytes-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** Writes a call, changes its bytes on disk, and reads it. */
async function reread(path: string, call: readonly [object, Buffer], change: (bytes: Buffer) => Buffer) {
  const file = await open(path, "w");
  expect(await writeCall(file, ...call)).toBe((await file.stat()).size);
  await file.close();
  await writeFile(path, change(await readFile(path)));
  return readCall(path);
}

test("a call is read as it was written, with any content", async () => {
  const path = join(await makeFolder(), "call");
  const property = fc.asyncProperty(header, body, async (header, body) => {
    const content = await reread(path, [header, body], (bytes) => bytes);
    expect(content).toEqual({ kind: "whole", header: JSON.parse(JSON.stringify(header)), body });
  });
  await fc.assert(property);
});

test.each([
  ["truncated anywhere", (file: Buffer, place: number) => file.subarray(0, place % file.length)],
  [
    "with extra bytes at its end",
    (file: Buffer, place: number) => Buffer.concat([file, Buffer.alloc((place % 9) + 1)]),
  ],
])("a file %s is damaged", async (_change, change) => {
  const path = join(await makeFolder(), "call");
  const property = fc.asyncProperty(header, body, fc.nat(), async (header, body, place) => {
    const content = await reread(path, [header, body], (file) => change(file, place));
    expect(content).toEqual({ kind: "damaged", reason: "wrong_length" });
  });
  await fc.assert(property);
});

test("a file with one flipped bit anywhere is refused", async () => {
  const path = join(await makeFolder(), "call");
  const bit = fc.tuple(fc.nat(), fc.integer({ min: 0, max: 7 }));
  const property = fc.asyncProperty(header, body, bit, async (header, body, [at, bit]) => {
    const content = await reread(path, [header, body], (file) => {
      const position = at % file.length;
      file.writeUInt8((file[position] ?? 0) ^ (1 << bit), position);
      return file;
    });
    expect(content.kind).not.toBe("whole");
  });
  await fc.assert(property, { numRuns: sized(100, 300) });
});

test.each([
  ["an empty file", "", "damaged"],
  ["a file of somebody else's", "x".repeat(100), "damaged"],
  ["a file of a later form", `PETLSPL3${"x".repeat(100)}`, "unknown_form"],
] as const)("%s is refused", async (_name, text, kind) => {
  const path = join(await makeFolder(), "call");
  await writeFile(path, text, "latin1");
  expect((await readCall(path)).kind).toBe(kind);
});

const answer = { kind: "whole", header: { form: 1 }, body: Buffer.from("answer") };
const fileOf = (form: number, checksum: string) =>
  Buffer.concat([
    Buffer.from(`PETLSPL${form}`),
    Buffer.from(`0000000a00000006${checksum}`, "hex"),
    Buffer.from('{"form":1}answer'),
  ]);

test("the format on disk is stable: later versions can read today's files", async () => {
  const path = join(await makeFolder(), "call");
  await reread(path, [answer.header, answer.body], (bytes) => bytes);
  expect(await readFile(path)).toEqual(fileOf(2, "31e0fd07".padEnd(64, "0")));
});

test.each([
  ["c43af64183194db4f051680f396fe69baf9944aa55eca2e615042ea8a29f3c60", answer],
  [
    "c43af64183194db4f051680f396fe69baf9944aa55eca2e615042ea8a29f3c61",
    { kind: "damaged", reason: "wrong_checksum" },
  ],
])("a file of version 2 with the checksum %s is read, or is damaged", async (checksum, content) => {
  const path = join(await makeFolder(), "call");
  await writeFile(path, fileOf(1, checksum));
  expect(await readCall(path)).toEqual(content);
});

describe("a large body", () => {
  const large = Buffer.alloc(48 * 1024 * 1024, "xyz");

  async function written(): Promise<string> {
    const folder = await makeFolder();
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
    await reread(path, [{ form: 1 }, large], (inMemory) => {
      expect(inMemory.equals(bytes)).toBe(true);
      return bytes;
    });
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
