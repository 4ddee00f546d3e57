import { randomBytes } from "node:crypto";
import type { BigIntStats } from "node:fs";
import {
  access,
  constants,
  copyFile,
  link,
  lstat,
  open,
  readdir,
  readlink,
  rename,
  rm,
  stat,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { codeOf, FixConfigurationError, JobLockedError, messageOf, StopRunError } from "../../errors.ts";
import {
  describeThisProcess,
  otherWriterOf,
  ownerOfFile,
  ownerPrefix,
  type RunnerProcess,
  stateOfProcess,
} from "../../process-state.ts";
import { syncFolder } from "../../sync-folder.ts";
import type { DestinationFinding } from "../destination.ts";
import { isOutOfMemory, loadDuckDb } from "./session.ts";

/** Verifies that the file for readers can be written, and that DuckDB can be loaded; changes nothing. */
export async function checkFiles(name: string, path: string): Promise<readonly DestinationFinding[]> {
  try {
    const file = await findFile(name, path);
    await access(dirname(file), constants.W_OK | constants.X_OK);
    await refuseForeign(name, file);
    await loadDuckDb();
    return [{ ok: true, message: `${path} can be written.` }];
  } catch (error) {
    const explained = explainDuckDb(error, name, path);
    const known = explained instanceof FixConfigurationError ? explained : null;
    return [
      {
        ok: false,
        message: known?.message ?? `${path} can't be written.`,
        hint: known?.problems[0]?.hint ?? "Correct the path or its permissions.",
      },
    ];
  }
}

/** Links that may lead from one to the next. */
const MOST_LINKS = 8;

/** Follows links at `path` to the file that readers open. Refuses what other users could redirect. */
export async function findFile(name: string, path: string, links = 0): Promise<string> {
  const found = await lstat(path).catch(() => null);
  if (found?.isSymbolicLink()) {
    const isTrusted = [0, process.getuid?.() ?? found.uid].includes(found.uid);
    const hint = "Use the path of the real file.";
    if (!isTrusted) throw refusedFile(name, `${path} is a link of another user (uid ${found.uid})`, hint);
    if (links === MOST_LINKS) throw refusedFile(name, `${path} leads through too many links`, hint);
    return findFile(name, resolve(dirname(path), await readlink(path)), links + 1);
  }
  const why = await otherWriterOf(dirname(path));
  if (why === null) return path;
  const hint = "Run person-etl as another user, or choose a folder of root that nobody else can write to.";
  throw refusedFile(name, `as root, the folder ${dirname(path)} is not used: it ${why}`, hint);
}

/** Text for a file of somebody else. */
export const NOT_OURS = "the file exists and was not written by person-etl";

/** Refuses a file that exists but is not a DuckDB database of this user. */
export async function refuseForeign(name: string, path: string): Promise<void> {
  if (!(await exists(path))) return;
  await using file = await open(path, "r");
  const { uid } = await file.stat();
  if (uid !== (process.getuid?.() ?? uid))
    throw refusedFile(name, `the file belongs to another user (uid ${uid})`);
  const head = Buffer.alloc(12);
  await file.read(head, 0, 12, 0);
  if (head.subarray(8).toString("latin1") !== "DUCK") throw refusedFile(name, NOT_OURS);
}

/**
 * Copies a closed or checkpointed database and renames it over `target`, so that readers never see a partial file. Returns the new file's identity.
 */
export async function releaseFile(source: string, target: string): Promise<string> {
  const ourselves = await describeThisProcess();
  await removeLeftovers(target, ourselves);
  // Others may write to the folder: a name that exists already, even as a link, is never opened.
  const copy = `${target}.${ownerPrefix(ourselves)}${randomBytes(6).toString("hex")}`;
  try {
    await copyFile(source, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    const identity = await finishFile(copy);
    await replaceFile(copy, target);
    return identity;
  } finally {
    await rm(copy, { force: true });
  }
}

/** Makes a copy private and durable; returns its identity. */
async function finishFile(path: string): Promise<string> {
  await using file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW);
  await file.chmod(0o600);
  await file.sync();
  return identityOf(await file.stat({ bigint: true }));
}

/** Owner and random part of a copy's name; copies of earlier versions have no owner. */
const COPY = /^(?:\d+\.\d*\.[\w-]*\.)?[0-9a-f]{12}$/u;

/** Removes the copies of every publication but running ones: with another `data_dir`, one may be publishing to the same file. */
async function removeLeftovers(target: string, ourselves: RunnerProcess): Promise<void> {
  const prefix = `${basename(target)}.`;
  for (const name of await readdir(dirname(target))) {
    const rest = name.slice(prefix.length);
    if (!name.startsWith(prefix) || !COPY.test(rest)) continue;
    const isRunning = (await stateOfProcess(ownerOfFile(rest), ourselves)) === "running";
    if (!isRunning) await rm(join(dirname(target), name), { force: true });
  }
}

/** Identity of a file, which a change or an older copy in its place doesn't have; null if there is none. */
export async function readIdentity(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found && identityOf(found);
}

function identityOf({ size, mtimeNs }: BigIntStats): string {
  return `${size}.${mtimeNs}`;
}

/** Renames a new database over `target`. The old one's log must not be replayed into it. */
export async function replaceFile(source: string, target: string): Promise<void> {
  await rm(`${target}.wal`, { force: true });
  await rename(source, target);
  await syncFolder(dirname(target));
}

/** Keeps a file of the caller, who removes it: by a second name, or as a copy where folders are on two disks. */
export async function keepFile(file: string, kept: string): Promise<void> {
  await rm(kept, { force: true });
  await link(file, kept).catch(() => copyFile(file, kept));
}

/** True if there is a file or folder. */
export async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null;
}

/** Converts a failure of DuckDB or its files into an error with a remedy; returns other errors unchanged. */
export function explainDuckDb(error: unknown, name: string, path: string): unknown {
  const message = messageOf(error);
  const code = codeOf(error) ?? "";
  const where = `Destination ${name} (${path})`;
  const refused = (text: string, hint = "Correct the path or its permissions.") =>
    refusedFile(name, text, hint, { cause: error });
  if (/lock on file|Conflicting lock|already attached/i.test(message)) {
    return inUse(name, path);
  }
  if (code === "ENOSPC" || isOutOfMemory(error) || /no space left|disk space/i.test(message)) {
    const text = `${where} can't be written: no space or memory left. Free some and publish again.`;
    return new StopRunError("destination_full", text, { cause: error });
  }
  if (["MODULE_NOT_FOUND", "ERR_DLOPEN_FAILED"].includes(code)) {
    return refused(
      "DuckDB's package for this system is missing or can't be loaded",
      "Install person-etl without --omit=optional, on the system and architecture that runs it.",
    );
  }
  if (/not a valid DuckDB database|different version/i.test(message)) {
    return refused(`${path} can't be opened as a DuckDB database`);
  }
  if (["ENOENT", "EACCES", "EPERM", "ENOTDIR", "EISDIR", "EROFS", "ERR_SQLITE_ERROR"].includes(code)) {
    const hint =
      code === "ENOENT"
        ? `Create the folder ${dirname(path)}, or correct publish.${name}.path.`
        : `Correct publish.${name}.path, or the permissions there.`;
    return refused(`${path} can't be written (${code})`, hint);
  }
  // Only the kind of error is kept: DuckDB's messages quote values.
  const [, kind] = /^([A-Z][A-Za-z ]{1,40} Error)\b/.exec(message) ?? [];
  if (kind === undefined) return error;
  const text = `${where}: DuckDB reported ${kind}. Try again; if it persists, run \`publish ${name} --full\`.`;
  return new StopRunError("destination_failed", text);
}

export function inUse(name: string, path: string): JobLockedError {
  return new JobLockedError(
    `Destination ${name} (${path}): another process is publishing to it. Try again later.`,
  );
}

export function refusedFile(
  name: string,
  message: string,
  hint = "Choose another path, or move the file: it would be overwritten.",
  options?: ErrorOptions,
): FixConfigurationError {
  const problem = { path: `publish.${name}.path`, message, hint };
  const text = `Destination ${name} can't be used: ${message}.`;
  return new FixConfigurationError("destination_refused", text, [problem], options);
}
