/**
 * Process that holds an embedded database until a test kills, interrupts or closes it.
 * Arguments: data_dir, folder of the binaries or "", uid to become or "". Prints one JSON line when open;
 * a line on stdin or a SIGINT makes it run one more statement, close and print "closed".
 */
import { once } from "node:events";
import { Client } from "pg";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import type { Log } from "../../src/log.ts";

const [dataDir = "", binaries = "", uid = ""] = process.argv.slice(2);
if (uid !== "") {
  process.setgroups?.([]);
  process.setgid?.(Number(uid));
  process.setuid?.(Number(uid));
}

const interrupted = new AbortController();
process.once("SIGINT", () => interrupted.abort(new Error("interrupted")));

const write = (fields: object, event: string): void => {
  process.stderr.write(`${JSON.stringify({ event, ...fields })}\n`);
};
const log: Log = { debug: write, info: write, warn: write, error: write };

const server = await openEmbedded({
  dataDir,
  log,
  signal: interrupted.signal,
  ...(binaries === "" ? {} : { binaries }),
});
process.stdout.write(
  `${JSON.stringify({ port: server.port, url: server.connectionString, superuserUrl: server.superuserUrl })}\n`,
);

const asked = Promise.race([once(process.stdin, "data"), once(interrupted.signal, "abort")]);
await asked;
const client = new Client({ connectionString: server.connectionString });
await client.connect();
await client.query("SELECT pg_sleep(0.3)");
await client.end();
await server.close();
process.stdout.write("closed\n");
process.exit(interrupted.signal.aborted ? 130 : 0);
