import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PostgreSqlContainer } from "@testcontainers/postgresql";
import { getContainerRuntimeClient } from "testcontainers";
import type { TestProject } from "vitest/node";
import { openEmbedded } from "../../src/load/embedded/open-embedded.ts";
import { silentLog } from "../../src/log.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Of a role that may create databases. */
    readonly postgresUrl: string;
  }
}

/** The real Postgres that all tests of one `vitest run` share. */
interface DatabaseServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** vitest's globalSetup: provides a Postgres (a given one, else Docker's, else the embedded one), or fails. */
export default async function provideDatabase(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env["PERSON_ETL_TEST_POSTGRES_URL"];
  const server: DatabaseServer = given
    ? { url: given, stop: async () => {} }
    : (await dockerAnswers())
      ? await startContainer()
      : await startEmbedded();
  project.provide("postgresUrl", server.url);
  return () => server.stop();
}

/** Asks the daemon: the client alone, which many machines have, is of no use. */
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
  ).start();
  return {
    url: container.getConnectionUri(),
    async stop() {
      await container.stop();
    },
  };
}

async function startEmbedded(): Promise<DatabaseServer> {
  const folder = await mkdtemp(join(tmpdir(), "person-etl-test-"));
  // As root the server runs as somebody else, who has to pass.
  await chmod(folder, 0o755);
  const server = await openEmbedded({ dataDir: folder, log: silentLog });
  return {
    url: server.connectionString,
    async stop() {
      await server.close();
      const elsewhere = await readFile(join(folder, "postgres", "location"), "utf8").catch(() => null);
      if (elsewhere !== null) await rm(elsewhere.trim(), { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}
