import { execFile } from "node:child_process";
import {
  chmod,
  chown,
  cp,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findPackagedBinaries } from "../../src/load/embedded/binaries.ts";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { homeOf } from "../support/embedded-files.ts";
import { makeOpenFolder, startHolder } from "../support/embedded-process.ts";
import { runSql } from "../support/run-sql.ts";

const log = silentLog;
const root = process.getuid?.() === 0;
/** A user without privileges; only root can switch to it. */
const NOBODY = 65_534;

test("the server never runs as root", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  const server = await openEmbedded({ dataDir, log });
  const [row] = await runSql(
    server.superuserUrl,
    "SELECT pg_read_file('postmaster.pid') AS lines, current_setting('data_directory') AS data",
  );
  const pid = Number.parseInt(String(row?.["lines"]), 10);
  const { stdout } = await promisify(execFile)("ps", ["-o", "uid=", "-p", String(pid)]);
  // Nor as an account that other services run as.
  for (const uid of [Number(stdout), (await stat(String(row?.["data"]))).uid]) {
    expect([0, NOBODY]).not.toContain(uid);
  }
  await server.close();
});

test("a database below a folder closed to its server's user works, reports its location and keeps its data", async () => {
  const folder = await makeOpenFolder();
  await chmod(folder, 0o700);
  const dataDir = join(folder, "data-dir");
  const warnings: object[] = [];
  const loud = { ...log, warn: (fields: object) => warnings.push(fields) };
  const first = await openEmbedded({ dataDir, log: loud });
  await runSql(first.connectionString, "CREATE TABLE kept AS SELECT 7 AS n");
  await first.close();
  const home = await homeOf(dataDir);
  // Only root moves it, because root can't run the server.
  expect(home.startsWith(folder)).toBe(!root);
  expect(warnings).toMatchObject(root ? [{ data: home, instead_of: join(dataDir, "postgres") }] : []);
  expect(first.howToConnect.join("\n")).toContain(join(home, "data"));
  expect((await stat(join(dataDir, "postgres", "password"))).mode & 0o777).toBe(0o600);

  const second = await openEmbedded({ dataDir, log: loud });
  expect(await runSql(second.connectionString, "SELECT n FROM kept")).toEqual([{ n: 7 }]);
  expect(warnings).toHaveLength(root ? 1 : 0);
  await second.close();
});

test("data that was elsewhere and is gone is reported missing, not silently recreated", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  await mkdir(join(dataDir, "postgres"), { recursive: true });
  await writeFile(join(dataDir, "postgres", "location"), "/nonexistent/person-etl/0123\n");
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "embedded_data_gone",
    message: expect.stringContaining("is in /nonexistent/person-etl/0123, which is gone"),
  });
});

test("a package whose links npm omitted and that can't be fixed is copied next to the data", async () => {
  const folder = await makeOpenFolder();
  const dataDir = join(folder, "data-dir");
  const native = await copyPackage(folder, { links: false });
  // As root, a folder that the server's user can't enter; otherwise one that can't be written to.
  await chmod(join(native, "lib"), 0o500);
  await chmod(join(folder, "package"), root ? 0o700 : 0o500);
  const server = await openEmbedded({ dataDir, log, binaries: native });
  expect(await readdir(join(dataDir, "postgres", "binaries"))).toEqual(["18.4.0-beta.17"]);
  expect(await runSql(server.connectionString, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
  await server.close();
  await chmod(join(folder, "package"), 0o700);
  await chmod(join(native, "lib"), 0o700);
});

test("links that npm left out are made in place where that can be done", async () => {
  const folder = await makeOpenFolder();
  const dataDir = join(folder, "data-dir");
  const native = await copyPackage(folder, { links: false });
  const server = await openEmbedded({ dataDir, log, binaries: native });
  await server.close();
  expect((await lstat(join(native, "lib", "libicuuc.so.60"))).isSymbolicLink()).toBe(true);
  expect(await readdir(join(dataDir, "postgres"))).not.toContain("binaries");
});

test("an ordinary user can create and run it", async () => {
  const folder = await makeOpenFolder();
  const dataDir = join(folder, "data-dir");
  await mkdir(dataDir);
  const uid = root ? NOBODY : (process.getuid?.() ?? 0);
  await chown(dataDir, uid, root ? NOBODY : (process.getgid?.() ?? 0));
  const native = await copyPackage(folder, { links: true });
  const holder = await startHolder(dataDir, { binaries: native, ...(root ? { uid } : {}) });
  expect(await runSql(holder.url, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
  expect(await holder.close()).toBe(0);
  expect(holder.logged()).toBe("");
  for (const entry of await readdir(join(dataDir, "postgres"))) {
    expect((await stat(join(dataDir, "postgres", entry))).uid).toBe(uid);
  }
  expect((await stat(join(dataDir, "postgres"))).mode & 0o777).toBe(0o700);
});

/** Error code of a failed opening. */
const codeOfOpening = (dataDir: string) =>
  openEmbedded({ dataDir, log }).then(
    async (server) => {
      await server.close();
      return "opened";
    },
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : error),
  );

test("links and folders of another user are refused, and nothing is changed behind them", async () => {
  const folder = await makeOpenFolder();
  const dataDir = join(folder, "data-dir");
  const control = join(dataDir, "postgres");
  const target = join(folder, "target");
  await mkdir(control, { recursive: true });
  await mkdir(target);
  await symlink(join(target, "created"), join(control, "start.lock"));
  expect(await codeOfOpening(dataDir)).toBe("embedded_start_failed");
  await rm(join(control, "start.lock"));
  await writeFile(join(target, "other"), "theirs");
  await link(join(target, "other"), join(control, "start.lock"));
  expect(await codeOfOpening(dataDir)).toBe("embedded_start_failed");
  await rm(join(control, "start.lock"));
  await rm(join(target, "other"));
  await symlink(target, join(control, "data"));
  expect(await codeOfOpening(dataDir)).toBe("embedded_owner");
  await rm(join(control, "data"));
  await rm(join(control, "start.lock"));
  // Only root can change a folder's owner.
  if (root) await chown(control, NOBODY, NOBODY);
  expect(root ? await codeOfOpening(dataDir) : "embedded_owner").toBe("embedded_owner");
  expect(await readdir(control)).toEqual([]);
  await rm(control, { recursive: true });
  await symlink(target, control);
  expect(await codeOfOpening(dataDir)).toBe("embedded_owner");
  expect(await readdir(target)).toEqual([]);
});

test("data with another owner or open to others is refused", async () => {
  const folder = await makeOpenFolder();
  const dataDir = join(folder, "data-dir");
  const first = await openEmbedded({ dataDir, log });
  await first.close();
  const data = join(dataDir, "postgres", "data");
  const { uid, gid } = await stat(data);
  if (root) await chown(data, 0, 0);
  expect(root ? await codeOfOpening(dataDir) : "embedded_owner").toBe("embedded_owner");
  await chown(data, uid, gid);
  await chmod(data, 0o755);
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({
    message: expect.stringContaining("has invalid permissions"),
  });
  await chmod(data, 0o700);
  expect(await codeOfOpening(dataDir)).toBe("opened");
});

test("a data_dir that can't be created is an error that names it", async () => {
  const folder = await makeOpenFolder();
  const file = join(folder, "data-dir");
  await cp(new URL(import.meta.url), file);
  await expect(openEmbedded({ dataDir: file, log })).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "embedded_unwritable",
    message: expect.stringContaining(file),
  });
  await unlink(file);
});

/** The package as unpacked by npm, with or without the files that its install script adds. */
async function copyPackage(folder: string, { links }: { readonly links: boolean }): Promise<string> {
  const target = join(folder, "package");
  await cp(join(findPackagedBinaries(), ".."), target, { recursive: true, verbatimSymlinks: true });
  const native = join(target, "native");
  const listed = JSON.parse(await readFile(join(native, "pg-symlinks.json"), "utf8")) as { target: string }[];
  if (!links) for (const link of listed) await unlink(join(target, link.target));
  return native;
}
