import { chmod, readdir, readFile, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { crashPoint } from "../crash-point.ts";
import { type CallContent, decodeCall, encodeCall } from "./call-bytes.ts";
import { createFolderSync, makeFolder, syncFolder, writeDurably } from "./durable-file.ts";
import { callsIn, filesIn, ifThere } from "./folder-content.ts";
import { explainSpoolFailure } from "./spool-failure.ts";
import {
  callFileName,
  callIdOf,
  damagedPath,
  isTemporary,
  jobFolder,
  shardCount,
  shardFolder,
  shardOf,
  type SpooledCall,
  type SpoolOwner,
} from "./spool-places.ts";

export type { SpooledCall, SpoolOwner } from "./spool-places.ts";

/** What reading a spooled call found; a damaged one has been moved aside. */
export type SpooledContent =
  | Exclude<CallContent, { kind: "damaged" }>
  | (Extract<CallContent, { kind: "damaged" }> & { readonly movedTo: string })
  /** Somebody else has loaded and removed it. */
  | { readonly kind: "gone" };

/**
 * Received answers of one shard of a job, on disk until their rows are committed. Every method rejects with a StopRunError
 * when the disk doesn't do its part.
 */
export interface Spool {
  /** Where this shard's answers are. */
  readonly folder: string;
  /** Calls that this shard has in the spool, and their size on disk. */
  readonly calls: number;
  readonly bytes: number;
  /** Whether the answer of one more call would find room beside those of so many calls under way. */
  hasRoom(callsUnderWay: number): boolean;
  /** Calls back whenever something was removed. */
  onRemoval(listener: () => void): void;
  /** Keeps an answer; once it resolves, the answer survives a power cut. What was received is never turned away. */
  write(call: {
    readonly callId: string;
    readonly receivedAtMs: number;
    readonly header: object;
    readonly body: Buffer;
  }): Promise<SpooledCall>;
  /** What earlier runs left, oldest first: this shard's own, and that of shards of another N, which can't be running. */
  leftovers(): Promise<readonly SpooledCall[]>;
  read(call: Pick<SpooledCall, "path">): Promise<SpooledContent>;
  /** Takes a call out once its rows are committed; idempotent. */
  remove(call: Pick<SpooledCall, "callId" | "path">): Promise<void>;
}

/** Where a spool is, and its bound. */
export interface SpoolOptions {
  /** The folder of all spools of a data_dir. */
  readonly root: string;
  readonly owner: SpoolOwner;
  /** Calls are not started beyond it; a received answer is kept all the same. */
  readonly maxBytes: number;
}

/** What an answer is taken to need before the first one is there. */
const FIRST_GUESS_BYTES = 1024 * 1024;

/** Opens a shard's spool and clears away what was left half-written. Only one process may have it open: its job's lock. */
export async function openSpool({ root, owner, maxBytes }: SpoolOptions): Promise<Spool> {
  const folder = shardFolder(root, owner);
  const syncNames = createFolderSync(folder);
  const spooled = new Map<string, SpooledCall>();
  const listeners: (() => void)[] = [];
  let bytes = 0;
  let largestBytes = 0;

  async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw explainSpoolFailure(error, folder);
    }
  }

  function note(call: SpooledCall): void {
    spooled.set(call.callId, call);
    bytes += call.bytes;
    largestBytes = Math.max(largestBytes, call.bytes);
  }

  function forget(callId: string): void {
    bytes -= spooled.get(callId)?.bytes ?? 0;
    spooled.delete(callId);
    for (const listener of listeners) listener();
  }

  /** Folders of this job's shards of another N. */
  async function foreignFolders(): Promise<readonly string[]> {
    const job = jobFolder(root, owner);
    const names = await readdir(job);
    return names
      .filter((name) => {
        const shard = shardOf(name);
        return shard !== null && shardCount(shard) !== shardCount(owner.shard);
      })
      .map((name) => join(job, name));
  }

  await explained(async () => {
    await makeFolder(folder);
    await chmod(root, 0o700);
    for (const path of await filesIn(folder)) if (isTemporary(path)) await rm(path, { force: true });
    for (const call of await callsIn(folder)) note(call);
  });

  return {
    folder,
    get calls() {
      return spooled.size;
    },
    get bytes() {
      return bytes;
    },
    hasRoom(callsUnderWay) {
      if (spooled.size + callsUnderWay === 0) return true;
      return bytes + (callsUnderWay + 1) * (largestBytes || FIRST_GUESS_BYTES) <= maxBytes;
    },
    onRemoval: (listener) => void listeners.push(listener),
    write: ({ callId, receivedAtMs, header, body }) =>
      explained(async () => {
        const path = join(folder, callFileName(callId, receivedAtMs));
        const pieces = encodeCall(header, body);
        const call = { callId, path, bytes: pieces.reduce((sum, piece) => sum + piece.length, 0) };
        await writeDurably(path, pieces, syncNames);
        note(call);
        return call;
      }),
    leftovers: () =>
      explained(async () => {
        const found = await callsIn(folder);
        for (const foreign of await foreignFolders()) {
          for (const path of await filesIn(foreign)) if (isTemporary(path)) await rm(path, { force: true });
          const calls = await callsIn(foreign);
          if (calls.length === 0) await rmdir(foreign).catch(() => {});
          found.push(...calls);
        }
        return found.toSorted((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1));
      }),
    read: ({ path }) =>
      explained(async () => {
        const file = await ifThere(readFile(path));
        if (file === null) return { kind: "gone" };
        const content = decodeCall(file);
        if (content.kind !== "damaged") return content;
        const movedTo = damagedPath(path);
        await makeFolder(dirname(movedTo));
        await ifThere(rename(path, movedTo));
        await syncFolder(dirname(movedTo));
        forget(callIdOf(path) ?? "");
        return { ...content, movedTo };
      }),
    remove: ({ callId, path }) =>
      explained(async () => {
        await rm(path, { force: true });
        forget(callId);
        crashPoint("after_spool_removal");
      }),
  };
}
