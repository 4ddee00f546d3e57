import { createHash, randomBytes } from "node:crypto";
import { chmod, lchown, mkdir, readdir, realpath, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { codeOf, FixConfigurationError, messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { runProgram } from "./run-program.ts";
import { chooseServerUser, giveTo, isRoot, type ServerUser } from "./server-user.ts";
import { readSmallFile, writeSmallFile } from "./small-file.ts";
import { describeFailure } from "./startup-failure.ts";

/** Where one embedded database lives. */
export interface Place {
  /** `<dataDir>/postgres`: the start lock, the password, the port, and `location` if the rest lives elsewhere. */
  readonly control: string;
  /** Holds the server's files: `data`, `server.conf`, `server.log`. The control folder itself wherever possible. */
  readonly home: string;
  /** The cluster, in Postgres's own form. */
  readonly data: string;
  /** Who runs the server; null for ourselves. */
  readonly user: ServerUser | null;
}

/** Makes the control folder below the data_dir, and says where it really is. */
export async function makeControlFolder(dataDir: string): Promise<string> {
  const control = join(dataDir, "postgres");
  try {
    // The server's user has to pass through what root makes; what lies inside is closed by its own mode.
    await mkdir(control, { recursive: true, mode: isRoot() ? 0o711 : 0o700 });
  } catch (error) {
    throw describeFailure(`making the folder ${control} for the embedded database`, messageOf(error), error);
  }
  checkOwner(control, (await stat(control)).uid);
  return await realpath(control);
}

/** Finds where the database lives or, for a new one, shall live. Call it under the start lock. */
export async function findPlace(control: string, log: Log, signal?: AbortSignal): Promise<Place> {
  const elsewhere = await readSmallFile(join(control, "location"));
  const home = elsewhere ?? control;
  const data = join(home, "data");
  const owner = await stat(data).catch(() => null);
  const user = await chooseServerUser(owner);
  if (owner !== null) {
    checkOwner(data, owner.uid);
    if (process.platform !== "win32") await mendRights(data, owner, user);
    await checkReachable(data, user, signal);
    return { control, home, data, user };
  }
  if (elsewhere !== null) {
    throw new FixConfigurationError(
      "embedded_data_gone",
      `The embedded database of ${dirname(control)} lived in ${elsewhere}, which is gone. ` +
        `Put it back (an unmounted disk?), or remove the folder ${control} to start with an empty one.`,
    );
  }
  const chosen = await chooseHome(control, user, log, signal);
  return { control, home: chosen, data: join(chosen, "data"), user };
}

function checkOwner(path: string, ownerUid: number): void {
  const me = process.getuid?.();
  if (me === undefined || me === 0 || ownerUid === me) return;
  throw new FixConfigurationError(
    "embedded_owner",
    `The embedded database in ${path} belongs to another user (uid ${ownerUid}; this is uid ${me}). ` +
      "Run person-etl as that user or as root, or choose another data_dir.",
  );
}

/** A copy put back from a backup often has lost what Postgres insists on: its user as owner, and closed to others. */
async function mendRights(
  data: string,
  owner: { uid: number; mode: number },
  user: ServerUser | null,
): Promise<void> {
  if (user && owner.uid !== user.uid) {
    for (const entry of await readdir(data, { recursive: true, withFileTypes: true })) {
      await lchown(join(entry.parentPath, entry.name), user.uid, user.gid);
    }
    await giveTo(user, data);
  }
  if ((owner.mode & 0o027) !== 0) await chmod(data, 0o700);
}

async function checkReachable(data: string, user: ServerUser | null, signal?: AbortSignal): Promise<void> {
  if (user === null || (await canEnter(data, user, signal))) return;
  throw new FixConfigurationError(
    "embedded_unreachable",
    `As root we run the embedded database as ${user.name}, who can't reach its files in ${data}: ` +
      `${(await firstClosedFolder(data, user)) ?? data} is closed to that user. Open it with chmod o+x.`,
  );
}

/** The control folder if the server's user can use it, else a place outside that is kept between runs. */
async function chooseHome(
  control: string,
  user: ServerUser | null,
  log: Log,
  signal?: AbortSignal,
): Promise<string> {
  if (await canServe(control, user, signal)) return control;
  const closed = user ? await firstClosedFolder(control, user) : null;
  const id = createHash("sha256").update(control).digest("hex").slice(0, 12);
  const tried: string[] = [];
  for (const parent of outsideFolders()) {
    // The random part: who removed the data_dir starts anew, and never meets the old data by surprise.
    const home = join(parent, `${id}-${randomBytes(3).toString("hex")}`);
    if (await makePrivateParent(parent)) {
      const abandoned = await findAbandoned(parent);
      await mkdir(home, { mode: user ? 0o711 : 0o700 });
      if (await canServe(home, user, signal)) {
        await writeSmallFile(join(home, "belongs-to"), control, 0o600);
        await writeSmallFile(join(control, "location"), home, 0o600);
        log.warn(
          {
            lives_in: home,
            instead_of: control,
            closed_folder: closed,
            server_user: user?.name,
            abandoned,
          },
          "embedded database lives outside data_dir, because the server's user can't use that folder",
        );
        return home;
      }
      await rm(home, { recursive: true, force: true });
    }
    tried.push(parent);
  }
  throw new FixConfigurationError(
    "embedded_unreachable",
    `No folder found that the embedded database${user ? ` (run as ${user.name})` : ""} could keep its data in: ` +
      `tried ${[control, ...tried].join(", ")}. ${closed ? `${closed} is closed to that user. ` : ""}` +
      "Choose a data_dir on a local file system that this user can enter.",
  );
}

/** Homes whose data_dir was removed, or has another home since: never used again, but only the user may say so. */
async function findAbandoned(parent: string): Promise<string[]> {
  const abandoned: string[] = [];
  for (const name of await readdir(parent)) {
    const home = join(parent, name);
    const owner = await readSmallFile(join(home, "belongs-to")).catch(() => null);
    const location = owner === null ? null : await readSmallFile(join(owner, "location")).catch(() => null);
    if (owner !== null && location !== home) abandoned.push(home);
  }
  return abandoned;
}

/** Outside the data_dir, in order: all of them survive a restart of the machine. */
function outsideFolders(): string[] {
  const own = process.getuid?.();
  return isRoot()
    ? ["/var/lib/person-etl", "/var/tmp/person-etl"]
    : [
        join(homedir(), ".local", "state", "person-etl"),
        ...(own === undefined ? [] : [`/var/tmp/person-etl-${own}`]),
      ];
}

/** Makes or accepts a folder of ours; one that somebody else put there under our name is not trusted. */
async function makePrivateParent(parent: string): Promise<boolean> {
  try {
    await mkdir(parent, { recursive: true, mode: isRoot() ? 0o711 : 0o700 });
    const { uid, mode } = await stat(parent);
    return (await realpath(parent)) === parent && uid === process.getuid?.() && (mode & 0o022) === 0;
  } catch {
    return false;
  }
}

/** True if a folder made here can be the server's user's alone, as Postgres demands, and that user can write in it. */
async function canServe(folder: string, user: ServerUser | null, signal?: AbortSignal): Promise<boolean> {
  if (process.platform === "win32") return true;
  const probe = join(folder, `probe-${randomBytes(4).toString("hex")}`);
  try {
    await mkdir(probe, { mode: 0o700 });
    await chmod(probe, 0o700);
    await giveTo(user, probe);
    const { uid, mode } = await stat(probe);
    // File systems of another system (shared folders, /mnt/c) ignore owners and modes without saying so.
    if (uid !== (user?.uid ?? process.getuid?.()) || (mode & 0o777) !== 0o700) return false;
    return user === null || (await canEnter(probe, user, signal));
  } catch (error) {
    signal?.throwIfAborted();
    if (codeOf(error) === "ENOSPC") {
      throw describeFailure(`trying the folder ${folder} for the embedded database`, messageOf(error), error);
    }
    return false;
  } finally {
    await rm(probe, { recursive: true, force: true });
  }
}

/** True if the server's user can stand in the folder. */
async function canEnter(folder: string, user: ServerUser, signal?: AbortSignal): Promise<boolean> {
  const { code, output } = await runProgram("/bin/sh", ["-c", 'cd "$1"', "sh", folder], { user, signal });
  if (code === null && output.includes("EPERM")) {
    throw new FixConfigurationError(
      "embedded_user",
      `Postgres refuses to run as root, and this process may not start programs as ${user.name}. ` +
        "Run person-etl as an ordinary user, or set warehouse.url to a Postgres of your own.",
    );
  }
  return code === 0;
}

/** The outermost folder on the way that the user may not pass, judged by its mode; null if there is none. */
async function firstClosedFolder(path: string, user: ServerUser): Promise<string | null> {
  const parent = dirname(path);
  const above = parent === path ? null : await firstClosedFolder(parent, user);
  if (above !== null) return above;
  const { uid, gid, mode } = await stat(path);
  const needed = uid === user.uid ? 0o100 : gid === user.gid ? 0o010 : 0o001;
  return basename(path) !== "" && (mode & needed) === 0 ? path : null;
}
