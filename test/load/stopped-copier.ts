/**
 * A loader that stops in the middle of its COPY, like a suspended laptop: holds the job `copied_job` of the
 * database in the first argument and stops itself. After SIGCONT it continues, and prints the code of its error.
 */
import { from as copyFrom } from "pg-copy-streams";
import { codeOf } from "../../src/errors.ts";
import { openWarehouse } from "../support/bound-load.ts";

const [, , url = ""] = process.argv;
const warehouse = openWarehouse({ url });
const reply = await warehouse.acquireLock({
  runId: "stopped",
  job: "copied_job",
  jobType: "enrich",
  shard: "0/1",
  lifeMs: 500,
  dead: [],
  process: { host: "laptop", pid: process.pid, machine: null, processStart: null },
});
if (reply.kind === "refused") throw new Error("the job is held by somebody else");
try {
  await warehouse.db.transaction(reply.run, async ({ client }) => {
    const copy = client.query(
      copyFrom(
        "COPY person_data_ops.schema_drift (endpoint, path, kind, observed_type, occurrences, first_seen_at, last_seen_at, _synced_at, _run_id) FROM STDIN",
      ),
    );
    const written = Promise.withResolvers<void>();
    copy.on("error", written.reject);
    copy.write("endpoint\tpath\tunknown_field\ttype\t1\tnow\tnow\tnow\trun\n", () => {
      process.stdout.write("copying\n");
      process.kill(process.pid, "SIGSTOP");
      copy.end(written.resolve);
    });
    await written.promise;
  });
  process.stdout.write("committed\n");
} catch (error) {
  process.stdout.write(`${codeOf(error)}\n`);
}
process.exit();
