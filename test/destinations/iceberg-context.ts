import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";
import { openIcebergDestination } from "../../src/publish/iceberg/destination.ts";
import type { IcebergTarget } from "../../src/publish/iceberg/workspace.ts";
import { openStorage, openStorageAgent } from "../../src/object-store.ts";
import { tables } from "../../src/schemas/registry.ts";
import { views } from "../../src/schemas/views/all-views.ts";
import type { DestinationContext } from "../publish/destination-suite.ts";
import type { FileRow } from "../publish/staged-files.ts";
import {
  BUCKET,
  type RunningJudges,
  S3_KEYS,
  S3_REGION,
  startJudges,
  WAREHOUSE,
} from "../support/iceberg/start-judges.ts";

const secret = (value: string) => ({ read: async () => value });

/** New namespaces in the catalog of this run, and readers of them. */
export interface IcebergContext extends DestinationContext {
  readonly judges: RunningJudges;
  readonly target: IcebergTarget;
  /** Qualified name of a table. */
  nameOf(table: string): string;
  /** Sends a request to pyiceberg: see read_tables.py. */
  ask(request: Readonly<Record<string, string>>): Promise<readonly FileRow[]>;
  /** Addresses and contents of all objects of these namespaces. */
  objects(): Promise<ReadonlyMap<string, Buffer>>;
  /** Addresses of the objects that have a text, in compressed rows, too. */
  objectsWith(text: string): Promise<readonly string[]>;
}

export async function openIcebergContext(): Promise<IcebergContext> {
  const runFolder = inject("runFolder");
  const judges = await startJudges(runFolder);
  const id = randomBytes(4).toString("hex");
  const target: IcebergTarget = {
    name: "lake",
    catalog: judges.catalog,
    warehouse: WAREHOUSE,
    token: null,
    credential: null,
    tokenUrl: null,
    scope: "catalog",
    localFolder: null,
    s3Endpoint: judges.s3,
    s3Region: S3_REGION,
    accessKeyId: secret(S3_KEYS.accessKeyId),
    secretAccessKey: secret(S3_KEYS.secretAccessKey),
    namespace: `d_${id}`,
    opsNamespace: `o_${id}`,
    folder: await mkdtemp(join(runFolder, "iceberg-")),
  };
  const reader = startReader(judges);
  let latest = openIcebergDestination(target);
  const nameOf = (table: string) => {
    const schema = [...tables, ...views].find(({ name }) => name === table)?.schema ?? "ops";
    return `${schema === "ops" ? target.opsNamespace : target.namespace}.${table}`;
  };
  return {
    judges,
    target,
    destination: latest,
    nameOf,
    ask: (request) => reader.ask(request),
    objects: () => readObjects(target),
    async objectsWith(text) {
      const objects = [...(await readObjects(target))];
      const found = await Promise.all(
        objects.map(
          async ([address, content]) =>
            content.includes(text) ||
            (address.endsWith(".parquet") &&
              (await reader.ask({ parquet: content.toString("base64"), text })).length > 0),
        ),
      );
      return objects.filter((_, index) => found[index]).map(([address]) => address);
    },
    async reopen() {
      latest = openIcebergDestination(target);
      return latest;
    },
    rows: (_, table) => reader.ask({ table: nameOf(table) }),
    async close() {
      await latest.close();
      await reader.close();
    },
  };
}

/** Configuration of `publish:`, with the ID of the key in the variable S3_KEY. */
export function publishText({ judges, target }: IcebergContext, catalog: string, secretKey: string): string {
  return `publish:
  lake:
    type: iceberg
    catalog: ${catalog}
    warehouse: ${WAREHOUSE}
    namespace: ${target.namespace}
    ops_namespace: ${target.opsNamespace}
    s3_endpoint: ${judges.s3}
    s3_region: ${S3_REGION}
    access_key_id: \${S3_KEY}
    secret_access_key: ${secretKey}
`;
}

/** Starts pyiceberg, which takes a second to load. */
function startReader({ python, catalog, s3 }: RunningJudges) {
  const properties = {
    type: "rest",
    uri: catalog,
    warehouse: WAREHOUSE,
    "s3.endpoint": s3,
    "s3.region": S3_REGION,
    "s3.access-key-id": S3_KEYS.accessKeyId,
    "s3.secret-access-key": S3_KEYS.secretAccessKey,
  };
  const program = fileURLToPath(new URL("../support/iceberg/read_tables.py", import.meta.url));
  const child = spawn(python, [program, JSON.stringify(properties)], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let last: Promise<unknown> = Promise.resolve();
  const askNow = async (request: Readonly<Record<string, string>>) => {
    child.stdin.write(`${JSON.stringify(request)}\n`);
    const { value } = await lines.next();
    if (value === undefined) throw new Error("pyiceberg has ended");
    const { answer, error } = JSON.parse(value) as { answer?: readonly FileRow[]; error?: string }; // see the program
    if (!answer) throw new Error(error);
    return answer;
  };
  return {
    ask(request: Readonly<Record<string, string>>): Promise<readonly FileRow[]> {
      const asked = last.then(() => askNow(request));
      last = asked.catch(() => {});
      return asked;
    },
    async close() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}

/** Reads all objects of namespaces. */
async function readObjects(target: IcebergTarget): Promise<ReadonlyMap<string, Buffer>> {
  const agent = openStorageAgent();
  const store = openStorage(target, {}, agent);
  const objects = new Map<string, Buffer>();
  for (const { address } of await store.list(`s3://${BUCKET}/tables`)) {
    if (!new RegExp(`/(?:${target.namespace}|${target.opsNamespace})/`, "u").test(address)) continue;
    objects.set(address, await store.read(address));
  }
  await agent.close();
  return objects;
}
