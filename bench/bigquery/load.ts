import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { openWarehouse } from "../../src/load/open.ts";
import type { CommitGroup, LookupAnswer, LookupSpec } from "../../src/load/warehouse.ts";
import { callsAbout } from "./answers.ts";

/**
 * Our half of the benchmark: gathers answers of `enrich` calls and commits them as a run does.
 * `node bench/bigquery/load.ts ENDPOINT PROJECT FOLDER PEOPLE RECORDS_PER_COMMIT DAY`
 */
const [apiEndpoint = "", project = "", folder = "", people = "0", perCommit = "100000", day = "0"] =
  process.argv.slice(2);

const ANSWERED_AT = `2026-11-${String(20 + Number(day)).padStart(2, "0")}T04:00:00.000000+00:00`;
const spec: LookupSpec = {
  job: "enrich_customers",
  type: "enrich",
  input: {
    name: "customers",
    connection: null,
    relation: { table: ["crm", "customers"] },
    where: null,
    orderBy: null,
    key: ["id"],
    cursor: null,
    fields: { service_pid: ["pid"] },
  },
  refreshAfterMs: null,
  refreshUnmatchedAfterMs: null,
  pidFrom: null,
  dropsInvalidEmails: false,
  parametersHash: "bench",
  resend: false,
  acceptParameters: null,
  maxRecords: null,
  shard: null,
};

const warehouse = openWarehouse({
  type: "bigquery",
  project,
  schema: "person_data",
  opsSchema: "person_data_ops",
  location: null,
  credentialsFile: null,
  impersonate: null,
  apiEndpoint,
  maximumBytesBilled: null,
  workFolder: folder,
});
await warehouse.migrate();
const bench = { host: "bench", pid: process.pid, machine: null, processStart: null };
const wish = { runId: `night-${day}`, job: spec.job, jobType: spec.type, shard: "0/1" };
const reply = await warehouse.acquireLock({ ...wish, process: bench, lifeMs: 3_600_000, dead: [] });
if (reply.kind !== "held") throw new Error("The job is held.");
const { run } = reply;
await warehouse.beginRun(run);

const figures = { gatherSeconds: 0, commitSeconds: 0, commits: 0, loadedBytes: 0, rowsWritten: 0 };
let group: CommitGroup | null = null;
let gathered = 0;

async function fileBytes(): Promise<number> {
  const names = await readdir(folder, { recursive: true });
  const files = names.filter((name) => name.endsWith(".ndjson"));
  const sizes = await Promise.all(files.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function commit(): Promise<void> {
  if (!group) return;
  const from = performance.now();
  figures.loadedBytes += await fileBytes();
  const { rowsWritten } = await group.commit();
  figures.commitSeconds += (performance.now() - from) / 1000;
  figures.commits += 1;
  figures.rowsWritten += rowsWritten;
  group = null;
  gathered = 0;
}

let from = performance.now();
for (const call of callsAbout(Number(people), Number(day))) {
  const answers = call.answers.map(({ index, person, ...part }): LookupAnswer => {
    const hash = createHash("sha256").update(String(index)).digest("hex");
    return {
      ...part,
      record: {
        recordId: String(index),
        json: "{}",
        sentHash: hash,
        sentPid: null,
        rows: [{ sourceKey: String(index), inputHash: hash, priorOutcome: day === "0" ? null : "matched" }],
        occurrences: 1,
      },
      person: person && warehouse.preparePerson(person, ANSWERED_AT),
      apiRequestId: call.callId,
      answeredAt: ANSWERED_AT,
      callId: call.callId,
    };
  });
  group ??= await warehouse.openCommit({ run, spec });
  const ledger = {
    callId: call.callId,
    endpoint: "POST /v2/enrich",
    apiRequestId: call.callId,
    startedAt: new Date().toISOString(),
    requestCompletedAt: ANSWERED_AT,
    milliseconds: 500,
    httpStatus: 200,
    attempt: 1,
    isSent: true,
    recordsSent: answers.length,
    recordsMatched: answers.length,
    responseBytes: call.bytes,
    possiblyBilled: false,
    possiblyBilledTwice: 0,
  };
  await group.add({ ledger: [ledger], answers, rejects: [], drift: [], counters: { requests: 1 } });
  gathered += answers.length;
  if (gathered < Number(perCommit)) continue;
  figures.gatherSeconds += (performance.now() - from) / 1000;
  await commit();
  from = performance.now();
}
figures.gatherSeconds += (performance.now() - from) / 1000;
await commit();
await warehouse.releaseLock(run);
await warehouse.close();
process.stdout.write(JSON.stringify(figures));
