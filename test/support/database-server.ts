import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { PostgreSqlContainer } from "@testcontainers/postgresql";
import { getContainerRuntimeClient } from "testcontainers";
import type { ProvidedContext } from "vitest";
import type { TestProject } from "vitest/node";
import { migrate } from "../../src/load/db/migrate.ts";
import { openWarehouse } from "../../src/load/open.ts";
import { buildProgram } from "./build-program.ts";
import { createDatabase } from "./fresh-database.ts";
import { runSql } from "./run-sql.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of a role that can create databases. */
    readonly postgresUrl: string;
    /** Name of a migrated database on it, to copy. */
    readonly migratedTemplate: string;
    /** Folder for the tests' files. Every user can enter it; it is removed after the run. */
    readonly runFolder: string;
    /** Launcher of the built program. */
    readonly program: string;
  }
}

/** A Postgres that all tests of one `vitest run` share. */
interface DatabaseServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** See guard-test-run.ts. */
interface Guard {
  readonly folder: string;
  readonly url: string | null;
  stop(): Promise<void>;
}

/** Server that the projects of a run share. */
interface Shared {
  readonly context: ProvidedContext;
  stop(): Promise<void>;
}

/** Each project loads this module once more, in the same process. */
const run = globalThis as typeof globalThis & {
  personEtlTests?: { readonly shared: Promise<Shared>; users: number };
};

/** vitest's globalSetup: provides a Postgres (a given one, else Docker's, else the embedded one), or fails. */
export default async function provideDatabase(project: TestProject): Promise<() => Promise<void>> {
  const use = (run.personEtlTests ??= { shared: start(), users: 0 });
  use.users += 1;
  const shared = await use.shared;
  for (const name of ["postgresUrl", "migratedTemplate", "runFolder", "program"] as const)
    project.provide(name, shared.context[name]);
  return async () => {
    use.users -= 1;
    if (use.users > 0) return;
    delete run.personEtlTests;
    await shared.stop();
  };
}

async function start(): Promise<Shared> {
  const given = process.env["PERSON_ETL_TEST_POSTGRES_URL"];
  const container = !given && (await dockerAnswers()) ? await startContainer() : null;
  const guard = await startGuard(given || container ? "folder" : "embedded");
  const url = given || (container?.url ?? guard.url);
  if (!url) throw new Error("no Postgres for the tests");
  const [template, program] = await Promise.all([
    createTemplate(url),
    buildProgram(join(guard.folder, "program")),
  ]);
  return {
    context: { postgresUrl: url, migratedTemplate: template.name, runFolder: guard.folder, program },
    async stop() {
      await template.release();
      await guard.stop();
      await container?.stop();
    },
  };
}

/** Migrating takes longer than the average test. */
async function createTemplate(url: string): Promise<{ readonly name: string; release(): Promise<void> }> {
  const database = await createDatabase(url);
  const warehouse = openWarehouse({
    url: database.url,
    schema: "person_data",
    opsSchema: "person_data_ops",
    stateSchema: "person_data_state",
  });
  await migrate(warehouse);
  await warehouse.close();
  const name = new URL(database.url).pathname.slice(1);
  return {
    name,
    async release() {
      const copies = await runSql(
        url,
        `SELECT datname AS name FROM pg_database WHERE datname LIKE '${name}%'`,
      );
      for (const copy of copies) await runSql(url, `DROP DATABASE ${String(copy["name"])} WITH (FORCE)`);
    },
  };
}

/** Asks the daemon, because many machines only have the client. */
async function dockerAnswers(): Promise<boolean> {
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    return false;
  }
}

async function startContainer(): Promise<DatabaseServer> {
  const container = await new PostgreSqlContainer(
    process.env["PERSON_ETL_TEST_POSTGRES_IMAGE"] ?? "postgres:17",
  )
    .withCommand(["postgres", "-c", "fsync=off", "-c", "full_page_writes=off"])
    .start();
  return {
    url: container.getConnectionUri(),
    async stop() {
      await container.stop();
    },
  };
}

/** Process that cleans up after this one, even after a kill -9. Holds the embedded database if requested. */
async function startGuard(wanted: "embedded" | "folder"): Promise<Guard> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL("guard-test-run.ts", import.meta.url)), wanted],
    { stdio: ["pipe", "pipe", "inherit"], detached: true },
  );
  const exited = once(child, "exit");
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  if (first.done) throw new Error("the tests' own Postgres did not start: see above");
  // The guard writes this document.
  const { folder, url } = JSON.parse(first.value) as { folder: string; url: string | null };
  return {
    folder,
    url,
    async stop() {
      child.stdin.end("end\n");
      await exited;
    },
  };
}
