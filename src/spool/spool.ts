import { createHash } from "node:crypto";
import { chmod, type FileHandle, open, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { crashPoint } from "../crash-point.ts";
import { codeOf, messageOf, StopRunError } from "../errors.ts";
import { type Body, chunksOf, isFilePart } from "../body.ts";
import {
  callFileName,
  callsIn,
  createFolderSync,
  filesIn,
  ifThere,
  jobFolder,
  makeFolder,
  pathOfTry,
  QUARANTINE,
  shardFolder,
  shardOf,
  type SpooledCall,
  type SpoolOwner,
  TEMPORARY,
  writeDurably,
} from "./files.ts";
import { syncFolder } from "../sync-folder.ts";

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
export type Spool = Awaited<ReturnType<typeof openSpool>>;

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

/** Removes partially written files. */
async function removeTemporary(folder: string): Promise<void> {
  const files = await filesIn(folder);
  for (const path of files.filter((name) => name.endsWith(TEMPORARY))) await rm(path, { force: true });
}

/** Opens a shard's spool and removes half-written files. Not while another process runs the job. */
export async function openSpool({ root, owner, maxBytes }: SpoolOptions) {
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
      return shard !== null && shard.split("/")[1] !== owner.shard.split("/")[1];
    });
  }

  await explained(async () => {
    await makeFolder(folder);
    await chmod(root, 0o700);
    await removeTemporary(folder);
    for (const call of await callsIn(folder)) add(call);
  });

  return {
    /** Folder of this shard's answers. */
    folder,
    /** Calls of this shard in the spool, and their size on disk. */
    get calls() {
      return spooled.size;
    },
    get bytes() {
      return bytes;
    },
    /** True if there is space for one more answer besides those of calls in progress. */
    hasSpace(callsInProgress: number) {
      if (spooled.size + callsInProgress === 0) return true;
      return bytes + (callsInProgress + 1) * (largestBytes || FIRST_GUESS_BYTES) <= maxBytes;
    },
    /** Resolves when the next call is removed. */
    nextRemoval: () => removal.promise,
    /** Writes an answer; once it resolves, the answer survives a power failure. Accepts answers beyond `maxBytes`. */
    write: ({ callId, receivedAtMs, header, body }: CallToSpool) =>
      explained(async (): Promise<SpooledCall> => {
        const path = join(folder, callFileName(callId, receivedAtMs));
        const size = await writeDurably(path, (file) => writeCall(file, header, body), syncNames);
        if (isFilePart(body)) await rm(body.path, { force: true });
        const call = { callId, path, bytes: size, tries: 0, at: null };
        add(call);
        return call;
      }),
    /** Lists answers of earlier runs, oldest first: of this shard, and of shards of another N, which can't be running. */
    leftovers: () =>
      explained(async () => {
        const found = await callsIn(folder);
        for (const foreign of await foreignFolders()) {
          await removeTemporary(foreign);
          const calls = await callsIn(foreign);
          if (calls.length === 0) await rmdir(foreign).catch(() => {});
          found.push(...calls);
        }
        return found.toSorted((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1));
      }),
    /** Reads a call; a large body stays on disk. `gone`: another process has loaded and removed it. */
    read: ({ path }: SpooledCall) =>
      explained(async () => (await ifThere(readCall(path))) ?? { kind: "gone" as const }),
    /** Path for the body of a call that is too large for the memory, until it is written. */
    overflowPath: (callId: string) => join(folder, `${callId}.body${TEMPORARY}`),
    /** Marks a call by a rename before it is loaded, so that the next run detects a load that killed the process. */
    beginTry: (call: SpooledCall) => explained(() => moveToTry(call, call.tries + 1, null)),
    /** Marks the result that is about to be read, so that the next run knows which one killed the process; null for none. */
    markResult: (call: SpooledCall, at: number | null) => explained(() => moveToTry(call, call.tries, at)),
    /** Reverts `beginTry` if the load failed for a reason outside the call. */
    takeTryBack: (call: SpooledCall) =>
      explained(() => moveToTry(call, Math.max(0, call.tries - 1), call.at)),
    /** Moves a call that can't be loaded to quarantine; returns its new path. */
    quarantine: (call: SpooledCall) =>
      explained(async () => {
        const path = join(dirname(dirname(call.path)), QUARANTINE, basename(call.path));
        await makeFolder(dirname(path));
        await ifThere(rename(call.path, path));
        await syncFolder(dirname(path));
        forget(call.callId);
        return path;
      }),
    /** Removes a call once its rows are committed; idempotent. */
    remove: ({ callId, path }: SpooledCall) =>
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
  const code = codeOf(error);
  if (DISK_FULL.includes(code ?? "")) {
    return new StopRunError(
      "spool_full",
      `The disk is full: received responses can't be written to ${folder}, so nothing more is sent. Free some space there, or choose another data_dir, and run again.`,
      { cause: error },
    );
  }
  const [reason, remedy] = TOO_MANY_FILES.includes(code ?? "")
    ? [
        `${code}: too many open files`,
        "Raise the limit (ulimit -n, LimitNOFILE= of a systemd unit; 1024 suffice), or lower service.concurrency, and run again.",
      ]
    : [code ?? messageOf(error), "Fix the folder, or choose another data_dir, and run again."];
  return new StopRunError(
    "spool_failed",
    `Received responses can't be written to ${folder} (${reason}), so nothing more is sent. ${remedy}`,
    { cause: error },
  );
}

/** Content of a spool file, or the reason why it can't be used. */
type CallContent =
  | { readonly kind: "whole"; readonly header: unknown; readonly body: Body }
  | { readonly kind: "damaged"; readonly reason: DamageReason }
  /** Written by a later version. */
  | { readonly kind: "unknown_form" };

/** Kind of damage. */
type DamageReason = "no_spool_file" | "wrong_length" | "wrong_checksum" | "no_header";

const FAMILY = "PETLSPL";
const MAGIC = Buffer.from(`${FAMILY}2`, "latin1");
/** Files of earlier versions, whose checksum is a SHA-256. */
const MAGIC_1 = Buffer.from(`${FAMILY}1`, "latin1");
const CHECKSUM_BYTES = 32;
const LENGTHS_AT = MAGIC.length;
const CHECKSUM_AT = LENGTHS_AT + 8;
/**
 * Magic, length of the header and of the body (32 bits each, big-endian), CRC-32 of the lengths, header and body (big-endian, followed
 * by zeros).
 */
const PRELUDE_BYTES = CHECKSUM_AT + CHECKSUM_BYTES;

/** Largest body: its length has 32 bits. */
const MAX_BODY_BYTES = 2 ** 32 - 1;
/** Files above this size aren't read into memory; answers aim at 4 MB before compression. */
const LARGE_FILE_BYTES = 40 * 1024 * 1024;

/** Checksum of bytes that come in parts. */
interface Checksum {
  update(bytes: Buffer): void;
  digest(): Buffer;
}

/** Starts the checksum of a file with its lengths and the header. */
function checksumOf(start: Buffer, header: Buffer): Checksum {
  const checksum = start.subarray(0, LENGTHS_AT).equals(MAGIC_1) ? createHash("sha256") : createCrc();
  checksum.update(start.subarray(LENGTHS_AT, CHECKSUM_AT));
  checksum.update(header);
  return checksum;
}

function createCrc(): Checksum {
  let value = 0;
  return {
    update(bytes) {
      value = crc32(bytes, value);
    },
    digest() {
      const digest = Buffer.alloc(CHECKSUM_BYTES);
      digest.writeUInt32BE(value);
      return digest;
    },
  };
}

function startOf(header: Buffer, bodyBytes: number): Buffer {
  if (bodyBytes > MAX_BODY_BYTES) {
    throw new RangeError(`A body of ${bodyBytes} bytes is larger than ${MAX_BODY_BYTES}.`);
  }
  const start = Buffer.alloc(PRELUDE_BYTES);
  MAGIC.copy(start);
  start.writeUInt32BE(header.length, LENGTHS_AT);
  start.writeUInt32BE(bodyBytes, LENGTHS_AT + 4);
  return start;
}

/** Writes a call to an empty file; returns the file's size. */
export async function writeCall(file: FileHandle, header: object, body: Body): Promise<number> {
  const text = Buffer.from(JSON.stringify(header), "utf8");
  const start = startOf(text, body.length);
  const checksum = checksumOf(start, text);
  await file.writeFile(Buffer.concat([start, text]));
  for await (const chunk of chunksOf(body)) {
    checksum.update(chunk);
    await file.writeFile(chunk);
  }
  // Known only now; its place is before the header.
  await file.write(checksum.digest(), 0, CHECKSUM_BYTES, CHECKSUM_AT);
  return start.length + text.length + body.length;
}

/** Reads a file; its checksum covers everything used. A large body is checked, and stays on disk. */
export async function readCall(path: string): Promise<CallContent> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const start = Buffer.alloc(PRELUDE_BYTES);
    await file.read(start);
    const found = checkStart(start, size);
    if ("kind" in found) return found;
    const { bodyAt } = found;
    const text = Buffer.alloc(bodyAt - PRELUDE_BYTES);
    if (text.length > 0) await file.read(text);
    const isLarge = size > LARGE_FILE_BYTES;
    const body = isLarge ? { path, start: bodyAt, length: size - bodyAt } : await file.readFile();
    const checksum = checksumOf(start, text);
    for await (const chunk of chunksOf(body)) checksum.update(chunk);
    return contentOf(start, text, body, checksum);
  } finally {
    await file.close();
  }
}

/** Checks the beginning of a file of this size; returns where its body begins. */
function checkStart(start: Buffer, size: number): CallContent | { readonly bodyAt: number } {
  if (size < PRELUDE_BYTES) return { kind: "damaged", reason: "wrong_length" };
  const magic = start.subarray(0, MAGIC.length);
  if (!magic.equals(MAGIC) && !magic.equals(MAGIC_1)) {
    const isOfFamily = /^[3-9A-Z]$/u.test(magic.toString("latin1").replace(FAMILY, ""));
    return isOfFamily ? { kind: "unknown_form" } : { kind: "damaged", reason: "no_spool_file" };
  }
  const bodyAt = PRELUDE_BYTES + start.readUInt32BE(LENGTHS_AT);
  const isWhole = size === bodyAt + start.readUInt32BE(LENGTHS_AT + 4);
  return isWhole ? { bodyAt } : { kind: "damaged", reason: "wrong_length" };
}

function contentOf(start: Buffer, text: Buffer, body: Body, checksum: Checksum): CallContent {
  if (!checksum.digest().equals(start.subarray(CHECKSUM_AT, PRELUDE_BYTES))) {
    return { kind: "damaged", reason: "wrong_checksum" };
  }
  try {
    return { kind: "whole", header: JSON.parse(text.toString("utf8")), body };
  } catch {
    return { kind: "damaged", reason: "no_header" };
  }
}
