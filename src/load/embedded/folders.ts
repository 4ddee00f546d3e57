import { randomBytes } from "node:crypto";
import {
  constants,
  type FileHandle,
  lstat,
  mkdir,
  open,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { chooseServerUser, describeFailure, isRoot, runProgram, type ServerUser } from "./programs.ts";
import type { Log } from "../../log.ts";

/** Opens a regular file without other names, so that no soft or hard link leads root to another user's file. */
export async function openPlainFile(path: string, flags: number, mode?: number): Promise<FileHandle> {
  const file = await open(path, flags | constants.O_NOFOLLOW, mode);
  const found = await file.stat();
  if (found.isFile() && found.nlink === 1) return file;
  await file.close();
  throw new Error(`${path} must be a file with a single name, not a link`);
}

/** Trimmed text of a file; null if there is none. */
export async function readSmallFile(path: string): Promise<string | null> {
  try {
    await using file = await openPlainFile(path, constants.O_RDONLY);
    return (await file.readFile("utf8")).trim();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** Writes a file atomically. */
export async function writeSmallFile(path: string, text: string, mode: number): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(temporary, `${text}\n`, { mode, flag: "wx", flush: true });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

export interface ServerFolders {
  /** `<dataDir>/postgres`: start lock, passwords, port, and `location` if the rest is elsewhere. */
  readonly control: string;
  /** Folder of `data`, `server.conf` and `server.log`: the control folder, except for root below a closed folder. */
  readonly home: string;
  readonly data: string;
  /** User of the server; null for the current user. */
  readonly user: ServerUser | null;
}

/** Root keeps data here if the server's user can't enter data_dir. */
const OUTSIDE = "/var/lib/person-etl";
/** Mode of folders that root creates and the server's user must enter. */
const folderMode = () => (isRoot() ? 0o711 : 0o700);

/** Creates the control folder in data_dir; returns its real path. */
export async function makeControlFolder(dataDir: string): Promise<string> {
  const control = join(dataDir, "postgres");
  try {
    await mkdir(control, { recursive: true, mode: folderMode() });
  } catch (error) {
    throw describeFailure(`creating the folder ${control} for the embedded database`, error);
  }
  await checkOwner(control);
  return await realpath(control);
}

/** Finds the folders of the database, or chooses those of a new one. Requires the start lock. */
export async function findFolders(control: string, log: Log, signal?: AbortSignal): Promise<ServerFolders> {
  const location = await readSmallFile(join(control, "location"));
  const home = location ?? control;
  const data = join(home, "data");
  const owner = await lstat(data).catch(() => null);
  if (owner?.isSymbolicLink()) throw isNoFolder(data);
  const user = await chooseServerUser(owner);
  if (owner !== null && user === null) await checkOwner(data);
  if (location !== null) {
    await checkHome(control, home);
    await checkOwner(home);
  }
  if (user === null || (await canEnter(home, user, signal))) return { control, home, data, user };
  if (owner !== null || location !== null) {
    throw new FixConfigurationError(
      "embedded_unreachable",
      `As root, the embedded database runs as user ${user.name}, who can't enter ${home}. Open the folders above it with chmod o+x.`,
    );
  }
  return await placeOutside(control, user, log, signal);
}

async function placeOutside(
  control: string,
  user: ServerUser,
  log: Log,
  signal?: AbortSignal,
): Promise<ServerFolders> {
  const home = join(OUTSIDE, randomBytes(6).toString("hex"));
  try {
    await mkdir(OUTSIDE, { recursive: true, mode: folderMode() });
    await checkOwner(OUTSIDE);
    await mkdir(home, { mode: folderMode() });
  } catch (error) {
    throw describeFailure(`creating the folder ${home} for the embedded database`, error);
  }
  if (!(await canEnter(home, user, signal))) {
    throw new FixConfigurationError(
      "embedded_unreachable",
      `As root, the embedded database runs as user ${user.name}, who can enter neither ${control} nor ${home}. ` +
        "Choose a data_dir that this user can enter.",
    );
  }
  await writeSmallFile(join(control, "location"), home, 0o600);
  log.warn(
    { data: home, instead_of: control, server_user: user.name },
    "embedded database is outside data_dir, because its user can't enter that folder",
  );
  return { control, home, data: join(home, "data"), user };
}

async function checkHome(control: string, home: string): Promise<void> {
  if (await stat(home).catch(() => null)) return;
  throw new FixConfigurationError(
    "embedded_data_gone",
    `The data of the embedded database in ${control} is in ${home}, which is gone. ` +
      `Restore it (an unmounted disk?), or remove the folder ${control} to start with an empty database.`,
  );
}

/** Refuses links and folders of another user, even as root: their owner could redirect writes. */
async function checkOwner(folder: string): Promise<void> {
  const me = process.getuid?.();
  const found = await lstat(folder);
  if (!found.isDirectory()) throw isNoFolder(folder);
  if (me === undefined || found.uid === me) return;
  throw new FixConfigurationError(
    "embedded_owner",
    `${folder} of the embedded database belongs to another user (uid ${found.uid}; this is uid ${me}). ` +
      "Run person-etl as that user, or choose another data_dir.",
  );
}

function isNoFolder(path: string): FixConfigurationError {
  return new FixConfigurationError("embedded_owner", `${path} must be a folder, not a link.`);
}

async function canEnter(folder: string, user: ServerUser, signal?: AbortSignal): Promise<boolean> {
  const { code, output } = await runProgram("/bin/sh", ["-c", 'cd "$1"', "sh", folder], { user, signal });
  if (code === null && output.includes("EPERM")) {
    throw new FixConfigurationError(
      "embedded_user",
      `Postgres refuses to run as root, and this process can't start programs as ${user.name}. ` +
        "Run person-etl as another user, or set warehouse.url to your own Postgres.",
    );
  }
  return code === 0;
}
