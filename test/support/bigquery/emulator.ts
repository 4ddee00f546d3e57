import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import { share } from "../share.ts";
import { unusedPort } from "../unused-port.ts";
import { installEmulator } from "./install-emulator.ts";

/** Project of everything in the emulator. */
export const EMULATOR_PROJECT = "test";

/** A BigQuery for tests. */
export interface TestBigQuery {
  readonly project: string;
  /** Address of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
}

/** An emulator started by this run. */
interface Started {
  readonly apiEndpoint: string;
}

const POLL_MS = 100;
const START_MS = 240_000;

/**
 * Returns the BigQuery of this run: a real project or a running emulator from the environment, or else an emulator that
 * the first caller starts and others share through `folder`.
 */
export async function findBigQuery(folder: string): Promise<TestBigQuery> {
  const project = process.env["PERSON_ETL_TEST_BIGQUERY_PROJECT"];
  if (project) return { project, apiEndpoint: null };
  const host = process.env["BIGQUERY_EMULATOR_HOST"];
  if (host) {
    const apiEndpoint = host.includes("://") ? host : `http://${host}`;
    return { project: process.env["BIGQUERY_EMULATOR_PROJECT"] || EMULATOR_PROJECT, apiEndpoint };
  }
  const started = await share(join(folder, "bigquery"), () => startEmulator(join(folder, "bigquery")));
  return { project: EMULATOR_PROJECT, apiEndpoint: started.apiEndpoint };
}

/** Starts an emulator with its data in `folder`. */
async function startEmulator(folder: string): Promise<Started> {
  const installed = await installEmulator();
  await mkdir(folder, { recursive: true });
  const [port, grpcPort] = [await unusedPort(), await unusedPort()];
  const log = await open(join(folder, "emulator.log"), "a");
  const child = spawn(
    installed.python,
    [
      fileURLToPath(new URL("serve_emulator.py", import.meta.url)),
      "--host=127.0.0.1",
      `--port=${port}`,
      `--grpc-port=${grpcPort}`,
      `--project=${EMULATOR_PROJECT}`,
      `--data-dir=${join(folder, "data")}`,
    ],
    {
      env: { ...process.env, HOME: installed.home },
      stdio: ["ignore", log.fd, log.fd],
      // It also serves later test files: guard-test-run ends it.
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
  return { apiEndpoint };
}

/** The port opens before queries work, so only an answered query counts. */
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
