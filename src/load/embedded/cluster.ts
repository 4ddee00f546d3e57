import { randomBytes } from "node:crypto";
import { constants, mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import type { Binaries } from "./binaries.ts";
import type { ServerFolders } from "./folders.ts";
import { runProgram } from "./run-program.ts";
import { giveTo, type ServerUser } from "./server-user.ts";
import { INCLUDE_LINE, SUPERUSER } from "./settings.ts";
import { openPlainFile, readSmallFile, writeSmallFile } from "./small-file.ts";
import { describeFailure } from "./startup-failure.ts";

/** Creates the cluster unless it exists, checks its version, and returns its password. Requires the start lock. */
export async function ensureCluster(
  folders: ServerFolders,
  binaries: Binaries,
  signal?: AbortSignal,
): Promise<string> {
  const known = await readSmallFile(join(folders.control, "password"));
  const version = await readSmallFile(join(folders.data, "PG_VERSION"));
  if (version === null) {
    if (await stat(folders.data).catch(() => null)) {
      throw new FixConfigurationError(
        "embedded_damaged",
        `${folders.data} is not a Postgres database (its file PG_VERSION is missing). Restore it, or remove the folder to start with an empty database.`,
      );
    }
    const password = known ?? randomBytes(24).toString("base64url");
    if (known === null) await writeSmallFile(join(folders.control, "password"), password, 0o600);
    await makeCluster(folders, binaries, password, signal);
    return password;
  }
  if (version !== String(binaries.majorVersion)) {
    throw new FixConfigurationError(
      "embedded_version",
      `The embedded database in ${folders.data} was created by Postgres ${version}, but this release of person-etl has Postgres ${binaries.majorVersion}, ` +
        "which can't read it. Take a pg_dump with the earlier release, or choose another data_dir to start with an empty database.",
    );
  }
  if (known === null) {
    throw new FixConfigurationError(
      "embedded_password",
      `The file ${join(folders.control, "password")} of the embedded database is missing. Restore it from a backup, ` +
        `or remove the folder ${folders.control} to start with an empty database.`,
    );
  }
  return known;
}

/** Runs initdb in a temporary folder, so that a killed initdb can't corrupt the data. */
async function makeCluster(
  folders: ServerFolders,
  binaries: Binaries,
  password: string,
  signal?: AbortSignal,
): Promise<void> {
  const tried = `creating the embedded database in ${folders.data}`;
  const passwordFile = join(folders.home, "password.initdb");
  const fresh = join(folders.home, `data.new-${randomBytes(4).toString("hex")}`);
  const maker = folders.user?.maker ?? folders.user;
  try {
    for (const left of await readdir(folders.home)) {
      // A killed initdb may still write for a moment; the next start then removes its folder.
      if (left.startsWith("data.new-"))
        await rm(join(folders.home, left), { recursive: true, force: true }).catch(() => {});
    }
    await rm(passwordFile, { force: true });
    await writeFile(passwordFile, password, { mode: 0o600, flag: "wx" });
    await giveTo(maker, passwordFile);
    await mkdir(fresh, { mode: 0o700 });
    await giveTo(maker, fresh);
    const { code, output } = await runProgram(
      binaries.initdb,
      [
        `--pgdata=${fresh}`,
        `--username=${SUPERUSER}`,
        `--pwfile=${passwordFile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        // Same sort order of text on every system.
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-instructions",
      ],
      { user: maker, signal },
    );
    if (code !== 0) throw describeFailure(tried, explainMissingAccount(output));
    if (folders.user?.maker) await giveAllTo(folders.user, fresh);
    await using conf = await openPlainFile(
      join(fresh, "postgresql.conf"),
      constants.O_APPEND | constants.O_WRONLY,
    );
    await conf.writeFile(`\n${INCLUDE_LINE}\n# Your own settings go below this line.\n`);
    await rename(fresh, folders.data);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true }).catch(() => {});
    signal?.throwIfAborted();
    if (error instanceof Error && !("errno" in error)) throw error;
    throw describeFailure(tried, messageOf(error), error);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Explains initdb's failure in a container whose user has no account. */
function explainMissingAccount(output: string): string {
  return output.includes("could not look up effective user ID")
    ? `${output}\nThis user is missing from /etc/passwd: run person-etl as a user with an account, or set warehouse.url to your own Postgres.`
    : output;
}

/** Changes the owner of a folder and of everything in it, without following links. */
async function giveAllTo({ uid, gid }: ServerUser, folder: string): Promise<void> {
  const command = 'PATH="$PATH:/usr/sbin" exec chown -Rh "$1" "$2"';
  const { code, output } = await runProgram("/bin/sh", ["-c", command, "sh", `${uid}:${gid}`, folder], {
    user: null,
  });
  if (code !== 0) throw new Error(output);
}
