import { spawn } from "node:child_process";
import { cpus } from "node:os";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { docQueries } from "../scripts/doc-queries.ts";
import { openWarehouse } from "../test/support/bound-load.ts";
import { launcher } from "./enrich-job.ts";
import { median } from "./figures.ts";
import { fillPeople, openServer, writeFilledConfig } from "./fill-people.ts";
import { measure } from "./measured-process.ts";

/**
 * Times the queries of docs/model-your-data.md, as they stand there, `status`, and the page, on a warehouse of many people.
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
  process.env["BENCH_URL"] = url;
  const config = writeFilledConfig(server.folder, NAMES);
  await measure(launcher, statusOf(config)); // Fills the compile cache.
  say(`${(await timeStatus(config)).toFixed(1).padStart(11)} ms  status, whole process, before`);
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
    say(`${(await timeStatus(config)).toFixed(1).padStart(11)} ms  status, whole process`);
    for (const [what, milliseconds] of await timePage(config)) {
      say(`${milliseconds.toFixed(1).padStart(11)} ms  page, ${what}`);
    }
  } finally {
    await client.end();
  }
}

const seconds = (started: number) => Math.round((performance.now() - started) / 1000);

/** Median of five warm runs, until the last row is read. */
async function medianOf(client: Client, sql: string): Promise<number> {
  await client.query(sql);
  return await medianTime(() => client.query(sql));
}

async function medianTime(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const started = performance.now();
    await work();
    times.push(performance.now() - started);
  }
  return median(times);
}

const statusOf = (config: string) => ["--config", config, "status"];

const timeStatus = (config: string) => medianTime(() => measure(launcher, statusOf(config)));

/** Times the first request of `ui`, which prepares statements, and the next ones. */
async function timePage(config: string): Promise<readonly (readonly [what: string, milliseconds: number])[]> {
  const child = spawn(launcher, ["--config", config, "--json", "ui", "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const { url } = JSON.parse(line) as { url: string };
      const read = async () => {
        const response = await fetch(url);
        await response.arrayBuffer();
        if (!response.ok) throw new Error(`The page responded with ${response.status}.`);
      };
      const started = performance.now();
      await read();
      const first = performance.now() - started;
      return [
        ["first request", first],
        ["next requests", await medianTime(read)],
      ];
    }
    throw new Error("The page did not start.");
  } finally {
    child.kill("SIGTERM");
  }
}

const server = await openServer();
try {
  await timeQueries(server.url, Number(values.people));
} finally {
  await server.close();
}
