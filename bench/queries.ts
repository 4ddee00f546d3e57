import { rmSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { docQueries } from "../scripts/doc-queries.ts";
import { openEmbedded } from "../src/load/embedded/open.ts";
import { silentLog } from "../src/log.ts";
import { openWarehouse } from "../test/support/bound-load.ts";
import { fillPeople } from "./fill-people.ts";
import { makeServerFolder } from "./stage.ts";

/**
 * Times the queries of docs/model-your-data.md, as they stand there, on a warehouse of many people.
 *
 *     npm run bench:queries -- [--people 1000000]
 *
 * A million people need 10 GB in the folder for temporary files. Starts an embedded Postgres unless PERSON_ETL_BENCH_POSTGRES_URL
 * is set; a database there that already has people isn't filled again.
 */
const { values } = parseArgs({ options: { people: { type: "string", default: "1000000" } } });

const NAMES = { data: "person_data", ops: "person_data_ops", state: "person_data_state" };
const ROUNDS = 5;

const say = (text: string) => process.stdout.write(`${text}\n`);

async function timeQueries(url: string, people: number): Promise<void> {
  const warehouse = openWarehouse({
    url,
    schema: NAMES.data,
    opsSchema: NAMES.ops,
    stateSchema: NAMES.state,
  });
  await warehouse.migrate();
  await warehouse.close();
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rowCount: isFilled } = await client.query("SELECT FROM person_data.person LIMIT 1");
    const started = performance.now();
    if (!isFilled) {
      const rows = await fillPeople(client, NAMES, people);
      say(`${people} people, ${rows} rows, filled in ${seconds(started)} s`);
    }
    const { rows: facts } = await client.query<{ gb: string; version: string }>(
      "SELECT round(pg_database_size(current_database()) / 1e9, 1) AS gb, current_setting('server_version') AS version",
    );
    say(`${facts[0]?.gb} GB, Postgres ${facts[0]?.version}, ${cpus().length} cores\n`);
    for (const { number, question, sql } of docQueries()) {
      const milliseconds = await medianOf(client, sql);
      say(
        `${milliseconds > 1000 ? "! " : "  "}${milliseconds.toFixed(1).padStart(9)} ms  ${number}. ${question}`,
      );
    }
  } finally {
    await client.end();
  }
}

const seconds = (started: number) => Math.round((performance.now() - started) / 1000);

/** Median of five warm runs, until the last row is read. */
async function medianOf(client: Client, sql: string): Promise<number> {
  await client.query(sql);
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now();
    await client.query(sql);
    times.push(performance.now() - started);
  }
  return times.toSorted((a, b) => a - b)[(ROUNDS - 1) / 2] ?? 0;
}

const given = process.env["PERSON_ETL_BENCH_POSTGRES_URL"];
const folder = makeServerFolder();
const embedded = given ? null : await openEmbedded({ dataDir: folder, log: silentLog });
try {
  await timeQueries(given ?? embedded?.connectionString ?? "", Number(values.people));
} finally {
  await embedded?.close();
  rmSync(folder, { recursive: true, force: true });
}
