import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { share } from "../share.ts";
import { unusedPort } from "../unused-port.ts";
import { installJudges, type Judges } from "./install-judges.ts";

/** Keys that the object store accepts. */
export const S3_KEYS = { accessKeyId: "test-key", secretAccessKey: "test-secret" } as const;
export const S3_REGION = "us-east-1";
export const BUCKET = "lake";
export const WAREHOUSE = "warehouse";

/** Servers of this run. */
export interface RunningJudges extends Judges {
  /** Address of the REST catalog. */
  readonly catalog: string;
  /** Address of the object store. */
  readonly s3: string;
}

const POLL_MS = 100;
const START_MS = 180_000;

/** Starts Nessie and moto, once for all test files of a run. `folder` is the run's. */
export function startJudges(folder: string): Promise<RunningJudges> {
  return share(join(folder, "iceberg"), async () => {
    const judges = await installJudges();
    const own = join(folder, "iceberg");
    await mkdir(own, { recursive: true });
    const s3 = await startMoto(judges, own);
    return { ...judges, s3, catalog: await startNessie(judges, own, s3) };
  });
}

async function startMoto(judges: Judges, folder: string): Promise<string> {
  const port = await unusedPort();
  await startServer(folder, "moto", judges.motoServer, ["--host", "127.0.0.1", "--port", `${port}`]);
  const url = `http://127.0.0.1:${port}`;
  await untilOk(`${url}/moto-api/`, join(folder, "moto.log"));
  const made = await fetch(`${url}/${BUCKET}`, { method: "PUT" });
  if (!made.ok) throw new Error(`moto made no bucket: ${await made.text()}`);
  return url;
}

async function startNessie({ javaHome, nessieJar }: Judges, folder: string, s3: string): Promise<string> {
  const [port, managementPort] = [await unusedPort(), await unusedPort()];
  const settings = {
    "quarkus.http.host": "127.0.0.1",
    "quarkus.http.port": port,
    "quarkus.management.host": "127.0.0.1",
    "quarkus.management.port": managementPort,
    "quarkus.oidc.tenant-enabled": false,
    "nessie.version.store.type": "IN_MEMORY",
    "nessie.server.authentication.enabled": false,
    "nessie.catalog.default-warehouse": WAREHOUSE,
    [`nessie.catalog.warehouses.${WAREHOUSE}.location`]: `s3://${BUCKET}/tables`,
    "nessie.catalog.service.s3.default-options.endpoint": `${s3}/`,
    "nessie.catalog.service.s3.default-options.path-style-access": true,
    "nessie.catalog.service.s3.default-options.region": S3_REGION,
    "nessie.catalog.service.s3.default-options.access-key": "urn:nessie-secret:quarkus:keys",
    "nessie.catalog.service.s3.default-options.request-signing-enabled": false,
    "keys.name": S3_KEYS.accessKeyId,
    "keys.secret": S3_KEYS.secretAccessKey,
  };
  await startServer(folder, "nessie", join(javaHome, "bin", "java"), [
    "-Xmx700m",
    ...Object.entries(settings).map(([key, value]) => `-D${key}=${value}`),
    "-jar",
    nessieJar,
  ]);
  const catalog = `http://127.0.0.1:${port}/iceberg`;
  await untilOk(`${catalog}/v1/config`, join(folder, "nessie.log"));
  return catalog;
}

/** Starts a server that outlives this test file; guard-test-run ends it by the id in `NAME.pid`. */
async function startServer(folder: string, name: string, program: string, args: readonly string[]) {
  const log = await open(join(folder, `${name}.log`), "a");
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", log.fd, log.fd], detached: true });
  await once(child, "spawn");
  await log.close();
  child.unref();
  await writeFile(join(folder, `${name}.pid`), `${child.pid}`);
}

async function untilOk(url: string, log: string): Promise<void> {
  for (const end = Date.now() + START_MS; Date.now() < end; await delay(POLL_MS)) {
    const answer = await fetch(url).catch(() => null);
    await answer?.arrayBuffer();
    if (answer?.ok) return;
  }
  throw new Error(`${url} does not answer: see ${log}`);
}
