import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile, rename, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import { GenericContainer, getContainerRuntimeClient } from "testcontainers";
import { installEmulator } from "./emulator-venv.ts";

const IMAGE = "ghcr.io/novucs/local-bigquery:0.4.0";

/** Project of everything in the emulator. */
export const EMULATOR_PROJECT = "test";

/** A BigQuery that tests may write to. */
export interface TestBigQuery {
  readonly project: string;
  /** Of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
}

/** What an emulator that this run has started is known by. */
interface Started {
  readonly apiEndpoint: string;
  /** Null for a container, which testcontainers ends. */
  readonly pid: number | null;
}

const POLL_MS = 100;
const START_MS = 240_000;
/** For those who wait for another file's emulator: the start, and before it the installation where there is none yet. */
const SHARE_MS = 1_200_000;

/**
 * The BigQuery of this run: a real project or a running emulator where the environment names one, else an emulator, which
 * the first caller starts and all others share through `folder`. Null where none can be had.
 */
export async function findBigQuery(folder: string): Promise<TestBigQuery | null> {
  const project = process.env["PERSON_ETL_TEST_BIGQUERY_PROJECT"];
  if (project) return { project, apiEndpoint: null };
  const host = process.env["BIGQUERY_EMULATOR_HOST"];
  if (host) {
    const apiEndpoint = host.includes("://") ? host : `http://${host}`;
    return { project: process.env["BIGQUERY_EMULATOR_PROJECT"] || EMULATOR_PROJECT, apiEndpoint };
  }
  const started = await share(folder, () => startEmulator(join(folder, "bigquery")));
  return started === null ? null : { project: EMULATOR_PROJECT, apiEndpoint: started.apiEndpoint };
}

/** The outcome of `start`, done by one of all processes that share a folder. */
async function share(folder: string, start: () => Promise<Started | null>): Promise<Started | null> {
  const outcome = join(folder, "bigquery.json");
  try {
    await (await open(join(folder, "bigquery.lock"), "wx")).close();
  } catch {
    return readOutcome(outcome);
  }
  let started: Started | null | { readonly error: string } = { error: "the emulator did not start" };
  try {
    started = await start();
    return started;
  } catch (error) {
    started = { error: String(error) };
    throw error;
  } finally {
    await writeFile(`${outcome}.part`, JSON.stringify(started));
    await rename(`${outcome}.part`, outcome);
  }
}

async function readOutcome(file: string): Promise<Started | null> {
  for (const end = Date.now() + SHARE_MS; Date.now() < end; await delay(POLL_MS)) {
    const text = await readFile(file, "utf8").catch(() => null);
    if (text === null) continue;
    // `share` writes exactly this.
    const outcome = JSON.parse(text) as Started | null | { readonly error: string };
    if (outcome !== null && "error" in outcome) throw new Error(outcome.error);
    return outcome;
  }
  throw new Error("the emulator that another test file starts did not come up");
}

/** Starts an emulator that keeps its data in `folder`: in Docker, else from a Python environment; null without either. */
export async function startEmulator(folder: string): Promise<Started | null> {
  if (await dockerAnswers()) return startContainer();
  const installed = await installEmulator();
  if (installed === null) return null;
  await mkdir(folder, { recursive: true });
  const [port, grpcPort] = [await freePort(), await freePort()];
  const log = await open(join(folder, "emulator.log"), "a");
  const child = spawn(
    installed.python,
    [
      fileURLToPath(new URL("serve-emulator.py", import.meta.url)),
      "--host=127.0.0.1",
      `--port=${port}`,
      `--grpc-port=${grpcPort}`,
      `--project=${EMULATOR_PROJECT}`,
      `--data-dir=${join(folder, "data")}`,
    ],
    {
      env: { ...process.env, HOME: installed.home },
      stdio: ["ignore", log.fd, log.fd],
      // It serves other test files after the process that started it: guard-test-run ends it.
      detached: true,
    },
  );
  await once(child, "spawn");
  await log.close();
  child.unref();
  if (child.pid === undefined) throw new Error("the emulator has no process");
  await writeFile(join(folder, "pid"), `${child.pid}`);
  const apiEndpoint = `http://127.0.0.1:${port}`;
  await untilReady(apiEndpoint, () => child.exitCode === null, join(folder, "emulator.log"));
  return { apiEndpoint, pid: child.pid };
}

async function startContainer(): Promise<Started> {
  const container = await new GenericContainer(process.env["PERSON_ETL_TEST_BIGQUERY_IMAGE"] ?? IMAGE)
    .withCommand(["--project", EMULATOR_PROJECT])
    .withExposedPorts(9050)
    .start();
  const apiEndpoint = `http://${container.getHost()}:${container.getMappedPort(9050)}`;
  await untilReady(apiEndpoint, () => true, "docker logs");
  return { apiEndpoint, pid: null };
}

/** The port opens before queries work: only an answered query counts. */
async function untilReady(apiEndpoint: string, isAlive: () => boolean, log: string): Promise<void> {
  for (const end = Date.now() + START_MS; Date.now() < end && isAlive(); await delay(POLL_MS)) {
    const answer = await fetch(`${apiEndpoint}/bigquery/v2/projects/${EMULATOR_PROJECT}/queries`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "SELECT 1", useLegacySql: false }),
    }).catch(() => null);
    if (answer !== null && (await answer.text()).includes("totalRows") && answer.ok) return;
  }
  throw new Error(`the BigQuery emulator does not answer: see ${log}`);
}

async function dockerAnswers(): Promise<boolean> {
  try {
    await getContainerRuntimeClient();
    return true;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || address === null) throw new Error("no free port");
  return address.port;
}
