import { mkdtemp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { openSpool, type Spool } from "../../src/spool/spool.ts";
import type { SpoolOwner } from "../../src/spool/files.ts";

/** Only shard of a job. */
export const OWNER: SpoolOwner = { warehouse: "w1", job: "enrich_customers", shard: "0/1" };

/** Folder for spools of one test; removed after the test run. */
export async function makeRoot(): Promise<string> {
  return join(await mkdtemp(join(inject("runFolder"), "spool-")), "data", "spool");
}

/** Opens a spool with space for everything that a test writes. */
export async function open(root: string, owner: Partial<SpoolOwner> = {}, maxBytes = 1e9): Promise<Spool> {
  return await openSpool({ root, owner: { ...OWNER, ...owner }, maxBytes });
}

/** A call id derived from a number. */
export function callId(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
}

const START_MS = Date.parse("2026-11-21T05:05:30.123Z");

/** Writes call number `n`, received `n` seconds after the first. */
export async function keep(spool: Spool, n: number, body = Buffer.from(`answer ${n}`)) {
  const call = { callId: callId(n), receivedAtMs: START_MS + n * 1000, header: { n }, body };
  return await spool.write(call);
}

/** Numbers of the calls that a run would find. */
export async function found(spool: Spool): Promise<number[]> {
  return (await spool.leftovers()).map((call) => Number(call.callId.slice(-12)));
}

/** Files below a folder, with relative paths. */
export async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted();
}
