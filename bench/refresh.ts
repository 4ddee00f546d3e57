import { join } from "node:path";
import { parseArgs } from "node:util";
import { groupNames, HASH_LENGTH, listGroups, UNKNOWN_HASH } from "../src/load/lookups/person-groups.ts";
import { runEnrichJob, writeConfig } from "./enrich-job.ts";
import { cpuOf, median, round } from "./figures.ts";
import { fetchFloor } from "./floor.ts";
import { dropSchemas, runSql, setStage, writeBodies } from "./stage.ts";

/**
 * Sends everybody again after 0, 1, 10 and 50 % of the people changed, beside a client that only fetches and parses the
 * same bodies.
 *
 *     npm run bench:refresh -- [--people 20000] [--rounds 3]
 */
const { values } = parseArgs({
  options: { people: { type: "string", default: "20000" }, rounds: { type: "string", default: "3" } },
});

const SCHEMA = "bench_refresh";
/** Shares of changed people, percent. */
const SHARES = [0, 1, 10, 50];
/** A changed person has another name and other phones. */
const CHANGED_TABLE = "person_phone";

/** Groups of a changed person, by their 1-based position in the stored hashes. */
const changedGroups = [
  "scalars",
  ...listGroups.flatMap(({ table, name }) => (table === CHANGED_TABLE ? [name] : [])),
].map((name) => groupNames.indexOf(name) * HASH_LENGTH + 1);

/** Changes the stored rows of some people, so that the next answers differ from them. */
async function changePeople(url: string, percent: number): Promise<void> {
  const changed = `SELECT service_pid FROM ${SCHEMA}_state.person_state WHERE hashtext(service_pid) & 127 < ${1.28 * percent}`;
  const hashes = changedGroups.reduce(
    (text, at) => `overlay(${text} PLACING '${UNKNOWN_HASH}' FROM ${at})`,
    "group_hashes",
  );
  await runSql(
    url,
    `UPDATE ${SCHEMA}.person SET full_name = 'Somebody Else' WHERE service_pid IN (${changed});
     DELETE FROM ${SCHEMA}.${CHANGED_TABLE} WHERE service_pid IN (${changed});
     UPDATE ${SCHEMA}_state.person_state SET group_hashes = ${hashes} WHERE service_pid IN (${changed})`,
  );
  // Otherwise the server would clean up after the night before, at any moment of the next one.
  await runSql(url, "VACUUM ANALYZE");
}

const stage = await setStage(Number(values.people));
try {
  const bodies = join(stage.folder, "bodies.jsonl");
  await writeBodies(stage, bodies);
  const ratios = new Map(SHARES.map((share) => [share, [] as number[]]));
  for (let i = 0; i < Number(values.rounds); i++) {
    await dropSchemas(stage.databaseUrl, SCHEMA);
    const config = writeConfig(stage, SCHEMA);
    const { people } = await runEnrichJob(stage, "first night", config);
    for (const share of SHARES) {
      await changePeople(stage.databaseUrl, share);
      const bare = await fetchFloor(stage, people, bodies);
      const sent = await runEnrichJob(stage, `${share} % changed`, config, ["--resend"]);
      const ratio = sent.people_per_second / bare.people_per_second;
      ratios.get(share)?.push(ratio);
      const cpu = `CPU/1,000: ${round(cpuOf(sent), 3)} s, floor ${bare.client_cpu_per_1000} s`;
      process.stdout.write(
        `${sent.what.padEnd(14)} ${sent.people_per_second} people/s  ${cpu}  ${sent.peak_node_mb} MB  ${round(ratio, 2)} of the floor\n`,
      );
    }
  }
  for (const [share, list] of ratios) {
    process.stdout.write(
      `${share} % changed: ${round(median(list), 2)} of HTTP and JSON.parse (median of ${list.length})\n`,
    );
  }
} finally {
  await stage.close();
}
