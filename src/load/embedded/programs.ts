import { spawn } from "node:child_process";
import { lchown, readFile } from "node:fs/promises";
import { parse } from "node:path";
import { FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";

/** Account of the server if we are root: Postgres refuses to run as root. */
export interface ServerUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  /** Account that makes a new cluster for a user without one: initdb requires one. */
  readonly maker?: ServerUser;
}

/** Account to run as. */
const OWN = "person-etl";
/** Accounts of other services too, which would have access to the data: they only make the cluster. */
const SHARED = ["nobody", "daemon"];
/** User IDs that no system assigns (systemd's list of user IDs). */
const UNASSIGNED = Array.from({ length: 478 }, (_, i) => 60_706 + i);

/** True if this process can change to another user. */
export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Returns null unless root; as root the owner of existing data, else the account `person-etl`, else a user of its own. */
export async function chooseServerUser(
  owner: { uid: number; gid: number } | null,
): Promise<ServerUser | null> {
  if (!isRoot()) return null;
  if (owner?.uid === 0) {
    throw new FixConfigurationError(
      "embedded_owner",
      "The data of the embedded database belongs to root, and Postgres refuses to run as root. Restore its owner with chown -R.",
    );
  }
  if (owner !== null) return { name: `uid ${owner.uid}`, uid: owner.uid, gid: owner.gid };
  const accounts = parseAccounts(await readFile("/etc/passwd", "utf8").catch(() => ""));
  const own = accounts.find(({ name }) => name === OWN);
  if (own) return own;
  const maker = accounts.find(({ name }) => SHARED.includes(name));
  const id = UNASSIGNED.find((one) => !accounts.some(({ uid, gid }) => uid === one || gid === one));
  if (maker && id !== undefined) return { name: `uid ${id}`, uid: id, gid: id, maker };
  throw new FixConfigurationError(
    "embedded_user",
    `Postgres refuses to run as root, and /etc/passwd has none of the accounts ${[OWN, ...SHARED].join(", ")}. ` +
      "Run person-etl as another user, or set warehouse.url to your own Postgres.",
  );
}

/** Accounts of /etc/passwd, except root and those with invalid ids. */
function parseAccounts(passwd: string): ServerUser[] {
  return passwd
    .split("\n")
    .map((line) => line.split(":"))
    .map(([name = "", , uid = "", gid = ""]) => ({ name, uid: Number(uid || "0"), gid: Number(gid || "0") }))
    .filter(({ name, uid, gid }) => name !== "" && uid > 0 && uid < 2 ** 31 && gid > 0 && gid < 2 ** 31);
}

/** Changes the owner of a file or folder to the server's user, if different. */
export async function giveTo(user: ServerUser | null, path: string): Promise<void> {
  if (user) await lchown(path, user.uid, user.gid);
}

interface ProgramResult {
  /** Exit code; null if it could not be started or a signal ended it. */
  readonly code: number | null;
  /** End of its standard output and error, or the reason why it didn't start. */
  readonly output: string;
}

const KEPT_OUTPUT = 65_536;

/** Runs a program as the server's user, in its own process group, so that Ctrl-C doesn't reach it. Throws only if aborted. */
export async function runProgram(
  file: string,
  args: readonly string[],
  options: { readonly user: ServerUser | null; readonly signal?: AbortSignal | undefined },
): Promise<ProgramResult> {
  options.signal?.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<ProgramResult>();
  let output = "";
  const keep = (chunk: string): void => {
    output = (output + chunk).slice(-KEPT_OUTPUT);
  };
  let child: ReturnType<typeof spawn>;
  try {
    child = spawn(file, args, {
      // All users can enter the root folder.
      cwd: parse(file).root,
      detached: true,
      windowsHide: true,
      stdio: ["ignore", "pipe", "pipe"],
      // The server must not inherit PG… variables.
      env: process.platform === "win32" ? process.env : { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" },
      ...(options.user ? { uid: options.user.uid, gid: options.user.gid } : {}),
    });
  } catch (error) {
    return { code: null, output: String(error) };
  }
  child.stdout?.setEncoding("utf8").on("data", keep);
  child.stderr?.setEncoding("utf8").on("data", keep);
  child.once("error", (error) => resolve({ code: null, output: String(error) }));
  child.once("close", (code) => resolve({ code, output }));

  const stop = (): void => endGroup(child.pid);
  options.signal?.addEventListener("abort", stop, { once: true });
  try {
    const result = await promise;
    options.signal?.throwIfAborted();
    return result;
  } finally {
    options.signal?.removeEventListener("abort", stop);
  }
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(process.platform === "win32" ? pid : -pid, "SIGTERM");
  } catch {
    // Already ended.
  }
}

/** Kind of a failed start; `busy`: another server has the port, or it or children of a killed one the data. */
type StartupFailure = "busy" | "disk_full" | "unknown";

/** Patterns in the server's log; the first match counts. */
const SIGNS: readonly (readonly [RegExp, StartupFailure])[] = [
  [/No space left on device|Check free disk space|ENOSPC|Disk quota exceeded|EDQUOT/i, "disk_full"],
  [/Address already in use|could not bind|could not create any TCP\/IP sockets/, "busy"],
  [
    /pre-existing shared memory block|lock file "[^"]*" already exists|is another (?:postmaster|server)/i,
    "busy",
  ],
];

/** Classifies a failure by the server's log or a program's output. */
export function readStartupFailure(text: string): StartupFailure {
  return SIGNS.find(([sign]) => sign.test(text))?.[1] ?? "unknown";
}

const NO_RIGHT = /EACCES|EPERM|EROFS|ENOTDIR|Permission denied|Read-only file system/;

const SHOWN_LINES = 10;

/** Creates an error from the attempted step and the last lines of its output, or the error that ended it. */
export function describeFailure(tried: string, cause: unknown): Error {
  const text = messageOf(cause);
  const options = typeof cause === "string" ? {} : { cause };
  const lastLines = text.trim().split("\n").slice(-SHOWN_LINES).join("\n");
  const failure = readStartupFailure(text);
  if (failure === "disk_full") {
    return new StopRunError(
      "disk_full",
      `The disk is full: ${tried} failed. Stored data is not lost: free at least 200 MB and run the command again.\n${lastLines}`,
      options,
    );
  }
  if (NO_RIGHT.test(text)) {
    return new FixConfigurationError(
      "embedded_unwritable",
      `${tried} failed. Allow this user to write there, or choose another data_dir.\n${lastLines}`,
      [],
      options,
    );
  }
  return new StopRunError("embedded_start_failed", `${tried} failed. Output:\n${lastLines}`, options);
}
