import { execFile } from "node:child_process";
import { access, constants, mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A PgBouncer: its program, and the folder of its own libraries, if any. */
export interface PgBouncerProgram {
  readonly file: string;
  readonly libraries: string | null;
}

const PLACES = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"];
const CACHE = join(import.meta.dirname, "../../node_modules/.cache/person-etl-tests");

/**
 * Finds PgBouncer on this machine. On Debian and derivatives, downloads the package otherwise and unpacks it into a cache
 * of this checkout: needs no privileges and installs nothing. Fails on other systems.
 */
export async function findPgBouncer(): Promise<PgBouncerProgram> {
  for (const place of PLACES) {
    const file = join(place, "pgbouncer");
    if (await canRun(file)) return { file, libraries: null };
  }
  const folder = join(CACHE, `pgbouncer-${await readRelease()}-${process.arch}`);
  const cached = await unpackedIn(folder);
  if (cached) return cached;
  try {
    await fetchInto(folder);
  } catch (error) {
    throw new Error(
      "These tests need PgBouncer, which is not installed here and can't be fetched by apt-get. Install it: " +
        "`apt-get install pgbouncer`, `brew install pgbouncer` or the like.",
      { cause: error },
    );
  }
  const fetched = await unpackedIn(folder);
  if (!fetched) throw new Error(`${folder} contains no PgBouncer; remove it and run the tests again.`);
  return fetched;
}

async function canRun(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Name of the release, such as `debian-12`; downloads depend on it. */
async function readRelease(): Promise<string> {
  const text = await readFile("/etc/os-release", "utf8").catch(() => "");
  const value = (name: string) => new RegExp(`^${name}="?([^"\n]*)`, "m").exec(text)?.[1] ?? "unknown";
  return `${value("ID")}-${value("VERSION_ID")}`;
}

async function unpackedIn(folder: string): Promise<PgBouncerProgram | null> {
  const file = join(folder, "usr/sbin/pgbouncer");
  if (!(await canRun(file))) return null;
  const triplets = await readdir(join(folder, "usr/lib")).catch(() => []);
  const triplet = triplets.find((name) => name.endsWith("-linux-gnu") || name.includes("-linux-gnuea"));
  return { file, libraries: triplet === undefined ? null : join(folder, "usr/lib", triplet) };
}

/** Downloads and unpacks the package and its missing dependencies; all or nothing. */
async function fetchInto(folder: string): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  const work = await mkdtemp(`${folder}.`);
  try {
    const archives = join(work, "archives");
    for (const place of [join(archives, "partial"), join(work, "lists/partial"), join(work, "root")]) {
      await mkdir(place, { recursive: true });
    }
    // With separate folders and no locks, apt-get needs no privileges and doesn't change the system.
    const settings = ["Debug::NoLocking=1", `Dir::Cache=${work}`, `Dir::Cache::archives=${archives}`];
    const ownLists = [`Dir::State::lists=${join(work, "lists")}`];
    const aptGet = async (args: readonly string[], more: readonly string[] = []) => {
      const options = [...settings, ...more, "APT::Sandbox::User=root"].flatMap((setting) => ["-o", setting]);
      await run("apt-get", ["-q", "-y", ...options, ...args], { timeout: 100_000 });
    };
    const download = ["install", "--download-only", "--no-install-recommends", "pgbouncer"];
    try {
      await aptGet(download);
    } catch {
      // The machine's lists of packages are missing or too old.
      await aptGet(["update"], ownLists);
      await aptGet(download, ownLists);
    }
    const packages = (await readdir(archives)).filter((name) => name.endsWith(".deb"));
    for (const name of packages) await run("dpkg-deb", ["-x", join(archives, name), join(work, "root")]);
    await rename(join(work, "root"), folder).catch(async (error: unknown) => {
      // Another test file was faster.
      if (!(await unpackedIn(folder))) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
