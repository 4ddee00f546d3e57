import { chmod, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { crashPoint } from "../crash-point.ts";
import { type CallContent, readCall, writeCall } from "./call-bytes.ts";
import { createFolderSync, makeFolder, syncFolder, writeDurably } from "./durable-file.ts";
import { callsIn, filesIn, ifThere } from "./folder-content.ts";
import {
  callFileName,
  isTemporary,
  jobFolder,
  pathOfTry,
  quarantinePath,
  shardCount,
  shardFolder,
  shardOf,
  temporaryName,
  type SpooledCall,
  type SpoolOwner,
} from "./spool-places.ts";
import { codeOf, messageOf, StopRunError } from "../errors.ts";
import { type Body, isFilePart } from "../file-part.ts";

export type { SpooledCall, SpoolOwner } from "./spool-places.ts";

/** Content of a spooled call. */
type SpooledContent =
  | CallContent
  /** Another process has loaded and removed it. */
  | { readonly kind: "gone" };

/** One received answer. */
interface CallToSpool {
  readonly callId: string;
  readonly receivedAtMs: number;
  readonly header: object;
  /** Removed if it is in a file. */
  readonly body: Body;
}

/**
 * Received answers of one shard of a job, on disk until their rows are committed. Every method rejects with a StopRunError
 * if the disk fails.
 */
export interface Spool {
  /** Folder of this shard's answers. */
  readonly folder: string;
  /** Calls of this shard in the spool, and their size on disk. */
  readonly calls: number;
  readonly bytes: number;
  /** True if there is space for one more answer besides those of calls in progress. */
  hasSpace(callsInProgress: number): boolean;
  /** Resolves when the next call is removed. */
  nextRemoval(): Promise<void>;
  /** Writes an answer; once it resolves, the answer survives a power failure. Accepts answers beyond `maxBytes`. */
  write(call: CallToSpool): Promise<SpooledCall>;
  /** Lists answers of earlier runs, oldest first: of this shard, and of shards of another N, which can't be running. */
  leftovers(): Promise<readonly SpooledCall[]>;
  /** Reads a call; a large body stays on disk. */
  read(call: SpooledCall): Promise<SpooledContent>;
  /** Path for the body of a call that is too large for the memory, until it is written. */
  overflowPath(callId: string): string;
  /** Marks a call by a rename before it is loaded, so that the next run detects a load that killed the process. */
  beginTry(call: SpooledCall): Promise<SpooledCall>;
  /** Marks the result that is about to be read, so that the next run knows which one killed the process; null for none. */
  markResult(call: SpooledCall, at: number | null): Promise<SpooledCall>;
  /** Reverts `beginTry` if the load failed for a reason outside the call. */
  takeTryBack(call: SpooledCall): Promise<SpooledCall>;
  /** Moves a call that can't be loaded to quarantine; returns its new path. */
  quarantine(call: SpooledCall): Promise<string>;
  /** Removes a call once its rows are committed; idempotent. */
  remove(call: SpooledCall): Promise<void>;
}

/** Folder and maximum size of a spool. */
interface SpoolOptions {
  /** Folder of all spools of a data_dir. */
  readonly root: string;
  readonly owner: SpoolOwner;
  /** No calls start while the spool is larger. */
  readonly maxBytes: number;
}

/** Space reserved per answer before the first one arrives. */
const FIRST_GUESS_BYTES = 1024 * 1024;

async function moveToTry(call: SpooledCall, tries: number, at: number | null): Promise<SpooledCall> {
  const path = pathOfTry(call.path, { tries, at });
  await ifThere(rename(call.path, path));
  return { ...call, path, tries };
}

/** Opens a shard's spool and removes half-written files. Not while another process runs the job. */
export async function openSpool({ root, owner, maxBytes }: SpoolOptions): Promise<Spool> {
  const folder = shardFolder(root, owner);
  const syncNames = createFolderSync(folder);
  const spooled = new Map<string, SpooledCall>();
  let bytes = 0;
  let largestBytes = 0;
  let removal = Promise.withResolvers<void>();

  async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw explainSpoolFailure(error, folder);
    }
  }

  function add(call: SpooledCall): void {
    spooled.set(call.callId, call);
    bytes += call.bytes;
    largestBytes = Math.max(largestBytes, call.bytes);
  }

  function forget(callId: string): void {
    bytes -= spooled.get(callId)?.bytes ?? 0;
    spooled.delete(callId);
    removal.resolve();
    removal = Promise.withResolvers();
  }

  /** Lists the folders of this job's shards of another N. */
  async function foreignFolders(): Promise<readonly string[]> {
    const folders = await filesIn(jobFolder(root, owner));
    return folders.filter((path) => {
      const shard = shardOf(path);
      return shard !== null && shardCount(shard) !== shardCount(owner.shard);
    });
  }

  await explained(async () => {
    await makeFolder(folder);
    await chmod(root, 0o700);
    for (const path of await filesIn(folder)) if (isTemporary(path)) await rm(path, { force: true });
    for (const call of await callsIn(folder)) add(call);
  });

  return {
    folder,
    get calls() {
      return spooled.size;
    },
    get bytes() {
      return bytes;
    },
    hasSpace(callsInProgress) {
      if (spooled.size + callsInProgress === 0) return true;
      return bytes + (callsInProgress + 1) * (largestBytes || FIRST_GUESS_BYTES) <= maxBytes;
    },
    nextRemoval: () => removal.promise,
    write: ({ callId, receivedAtMs, header, body }) =>
      explained(async () => {
        const path = join(folder, callFileName(callId, receivedAtMs));
        const size = await writeDurably(path, (file) => writeCall(file, header, body), syncNames);
        if (isFilePart(body)) await rm(body.path, { force: true });
        const call = { callId, path, bytes: size, tries: 0, at: null };
        add(call);
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
        return (await ifThere(readCall(path))) ?? { kind: "gone" };
      }),
    overflowPath: (callId) => temporaryName(join(folder, `${callId}.body`)),
    beginTry: (call) => explained(() => moveToTry(call, call.tries + 1, null)),
    markResult: (call, at) => explained(() => moveToTry(call, call.tries, at)),
    takeTryBack: (call) => explained(() => moveToTry(call, Math.max(0, call.tries - 1), call.at)),
    quarantine: (call) =>
      explained(async () => {
        const path = quarantinePath(call.path);
        await makeFolder(dirname(path));
        await ifThere(rename(call.path, path));
        await syncFolder(dirname(path));
        forget(call.callId);
        return path;
      }),
    remove: ({ callId, path }) =>
      explained(async () => {
        await rm(path, { force: true });
        forget(callId);
        crashPoint("after_spool_removal");
      }),
  };
}

/** Error codes if the disk or quota is full, or the file too large. */
const DISK_FULL = ["ENOSPC", "EDQUOT", "EFBIG"];

/** Error codes if the process or the machine has too many open files. */
const TOO_MANY_FILES = ["EMFILE", "ENFILE"];

/** Converts a failure of the spool's folder into an error that ends the run. */
export function explainSpoolFailure(error: unknown, folder: string): StopRunError {
  if (DISK_FULL.includes(codeOf(error) ?? "")) {
    return new StopRunError(
      "spool_full",
      `The disk is full: received answers can't be written to ${folder}, so nothing more is sent. ` +
        "Free some space there, or choose another data_dir, and run again.",
      { cause: error },
    );
  }
  if (TOO_MANY_FILES.includes(codeOf(error) ?? "")) {
    return new StopRunError(
      "spool_failed",
      `Received answers can't be written to ${folder} (${codeOf(error)}: too many open files), so nothing more is sent. ` +
        "Raise the limit (ulimit -n, LimitNOFILE= of a systemd unit; 1024 suffice), or lower service.concurrency, and run again.",
      { cause: error },
    );
  }
  return new StopRunError(
    "spool_failed",
    `Received answers can't be written to ${folder} (${codeOf(error) ?? messageOf(error)}), so ` +
      "nothing more is sent. Fix the folder, or choose another data_dir, and run again.",
    { cause: error },
  );
}
