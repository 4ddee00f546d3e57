import { cp, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { inject } from "vitest";
import { runJobs } from "../../src/jobs/run.ts";
import type { RunReport } from "../../src/jobs/job.ts";
import { type RunRequest, wholeInput } from "../../src/jobs/services.ts";
import { runHereJson } from "../cli/support/in-process.ts";
import { openDefaultDb } from "../load/postgres-context.ts";
import { openServices, requestOf } from "../nights/night.ts";
import { passDays } from "../nights/pass-days.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { createLife, type Death, live, mortalDb, mortalHttp } from "./life.ts";
import { startModelService } from "./service.ts";

/** Options of a run. */
export interface RunOptions {
  readonly flags?: Partial<RunRequest>;
  readonly death?: Death;
}

/** A run that ended. */
export interface EndedRun {
  readonly runId: string;
  /** Name of the run in the service's ledger: each shard has its own. */
  readonly tag: string;
  /** Null if it died. */
  readonly report: RunReport | null;
  /** Events in the log, at least warnings. */
  readonly warnings: readonly string[];
}

export type ModelWorld = Awaited<ReturnType<typeof openModelWorld>>;

/** Milliseconds in which the writes of a dead run to its disk end. */
const LAST_WRITES_MS = 20;

/** Opens database, service and configuration of a history, with empty tables. */
export async function openModelWorld(isKeyUnique: boolean) {
  const database = await takeMigratedDatabase();
  const folder = await mkdtemp(join(inject("runFolder"), "model-"));
  const file = join(folder, "config.yaml");
  const service = await startModelService();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  const key = isKeyUnique ? "id bigint PRIMARY KEY" : "id bigint";
  await client.query(
    `SET TimeZone = 'UTC'; SET search_path = person_data, person_data_ops, crm, public; CREATE SCHEMA crm`,
  );
  for (const table of ["customers", "leads"])
    await client.query(
      `CREATE TABLE crm.${table} (${key}, name text, email text, work_email text, city text)`,
    );
  const shared = openDefaultDb(database.url);
  const env = { SERVICE_URL: service.url, SERVICE_KEY: "key", WAREHOUSE_URL: database.url };
  const spool = join(folder, "answers", "spool");
  let runs = 0;
  let asides = 0;

  async function run({ flags = {}, death }: RunOptions = {}): Promise<EndedRun> {
    const runId = flags.runId ?? `run-${(runs += 1)}`;
    const { index, count } = flags.shard ?? wholeInput;
    const tag = count === 1 ? runId : `${runId}.${index}`;
    const life = createLife(death ?? null);
    const db = death ? mortalDb(life, openDefaultDb(database.url)) : shared;
    const warnings: string[] = [];
    const note = (fields: object, event: string) => void warnings.push(`${event} ${JSON.stringify(fields)}`);
    const services = await openServices(file, env, db, note);
    const { http } = services;
    let sending = "";
    const named = {
      ...http,
      request: (call: Parameters<typeof http.request>[0]) =>
        http.request({ ...call, path: `${call.path}?run=${tag}&job=${sending}` }),
    };
    const start = (job: string) => void (sending = job);
    const mortal = {
      ...services,
      http: mortalHttp(life, named),
      progress: { ...services.progress, start },
    };
    const report = await live(life, () => runJobs(mortal, requestOf(runId, flags)));
    if (report === null) await delay(LAST_WRITES_MS);
    else if (db !== shared) await db.close();
    await http.close();
    return { runId, tag, report, warnings };
  }

  return {
    service,
    /** Runs in this process; every run of one history has an ID of its own, unless given. */
    run,
    configure: (text: string) => writeFile(file, text),
    async sql(statements: string): Promise<void> {
      await client.query(statements);
    },
    rows: async <Row extends object>(query: string): Promise<readonly Row[]> =>
      (await client.query<Row>(query)).rows,
    passDays: (days: number) => passDays(client, days),
    /** Runs a command; returns its exit code and document. */
    command: (...args: readonly string[]) => runHereJson(args, { cwd: folder, env }),
    /** Puts the received answers of dead runs aside, as if they were on another machine. Returns true if there were any. */
    async putSpoolAside(): Promise<boolean> {
      const files = await readdir(spool, { recursive: true }).catch(() => []);
      if (!files.some((name) => name.includes("."))) return false;
      await rename(spool, join(folder, `aside-${(asides += 1)}`));
      return true;
    },
    /** Brings all of them back. */
    async bringSpoolsBack(): Promise<void> {
      for (; asides > 0; asides -= 1) {
        const aside = join(folder, `aside-${asides}`);
        await cp(aside, spool, { recursive: true, force: false });
        await rm(aside, { recursive: true });
      }
    },
    async close(): Promise<void> {
      await client.end();
      await shared.close();
      await service.close();
      await database.release();
    },
  };
}
