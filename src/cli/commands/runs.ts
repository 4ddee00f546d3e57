import { commandWith, renderRunSummary } from "./run.ts";
import { openFilled } from "../app.ts";
import { type Context, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import { table, type Text } from "../output.ts";
import { durationText, timeText } from "../../figures.ts";
import { type ListedRun, listRuns, showRun } from "../../jobs/report/runs.ts";
import { billedByJob, readBilledInRun } from "../../load/ledger/costs.ts";

export async function list(context: Context, { limit }: { readonly limit: number }) {
  const { db } = await openFilled(context);
  const runs = await listRuns(db, limit);
  return result({ runs }, renderRuns(runs));
}

function renderRuns(runs: readonly ListedRun[]): Text {
  if (runs.length === 0) return "No job has run yet.";
  return table(runs, {
    run: (run) => run.run_id,
    started: (run) => timeText(run.started_at),
    took: (run) => (run.finished_at === null ? null : durationText(secondsOf(run))),
    status: stateOf,
    jobs: ({ jobs }) => new Set(jobs.map(({ job }) => job)).size,
    sent: (run) => run.records_sent,
    matched: (run) => run.records_matched,
    rejected: (run) => run.records_rejected || null,
    remaining: (run) => run.records_remaining || null,
    "possibly billed": (run) => run.possibly_billed || null,
  });
}

/** Status, with the limits of a limited run. */
function stateOf({ status, jobs }: ListedRun): string {
  const limits = new Set(jobs.flatMap(({ limited_by: limit = [] }) => limit));
  return status === "limited" && limits.size > 0 ? `limited (${[...limits].join(", ")})` : status;
}

const secondsOf = (run: { readonly started_at: string; readonly finished_at: string | null }) =>
  Math.max(0, Date.parse(run.finished_at ?? run.started_at) - Date.parse(run.started_at)) / 1000;

export async function show(context: Context, _flags: object, id: string) {
  const { config, db } = await openFilled(context);
  const found = await showRun({ config, db, log: context.log }, id);
  if (!("run_id" in found)) throw unclear(id, found, commandWith(config, "runs list"));
  const summary = renderRunSummary(found, {
    isTrial: false,
    config,
    publications: [],
    billed: await readBilledInRun(db, found.run_id).then(billedByJob),
    seconds: secondsOf(found),
    warehouse: db.description,
    startedAt: found.started_at,
  });
  return result(found, summary);
}

function unclear(id: string, found: readonly string[], list: string): UsageError {
  return new UsageError(
    found.length === 0
      ? `No run has an ID that begins with ${id}. \`${list}\` shows the last runs.`
      : `Several runs have an ID that begins with ${id}: ${found.join(", ")}. Give more of the ID.`,
  );
}
