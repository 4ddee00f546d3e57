import type { Command } from "commander";
import { systemClock } from "../../clock.ts";
import type { JobPlan } from "../../jobs/report/job-plan.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { type PlanReport, planJobs } from "../../jobs/report/plan.ts";
import { type Shard, shareLimits, wholeInput } from "../../jobs/shard.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { count, counted, duration } from "../figures.ts";
import { openConfig } from "../open-config.ts";
import { openConfiguredWarehouse } from "../open-warehouse.ts";
import type { Outcome } from "../outcome.ts";
import { parseShard } from "../parse-shard.ts";
import { createSampleTables } from "../sample-tables.ts";
import { renderBudgets } from "../render-budgets.ts";
import { renderTable } from "../text-table.ts";

interface PlanFlags {
  readonly shard?: Shard;
}

/** `plan`: predicts what a run would do. */
export const addPlan: AddCommand = (program, act) => {
  program
    .command("plan")
    .description(
      "predict a run: due records and reasons, calls, estimated billed records and duration; sends nothing",
    )
    .argument("[jobs...]", "configured jobs (default: all)")
    .option("--shard <i/n>", "predict `run --shard i/n`", parseShard)
    .action((jobs: string[], flags: PlanFlags, command: Command) =>
      act(command, (context) => plan(context, jobs, flags.shard ?? wholeInput), { jobs: [] }),
    );
};

async function plan(context: Context, names: readonly string[], shard: Shard): Promise<Outcome> {
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  const { db } = await openConfiguredWarehouse(context, config);
  // Creating sample tables is safe in the embedded database, and without them there is nothing to plan.
  if (config.service.baseUrl === "sandbox" && config.warehouse.url === "embedded") {
    await createSampleTables(config, jobs, db, context);
  }
  const report = await planJobs({ config, db, clock: systemClock }, names, shard);
  return { document: report, text: renderPlan(report, context.widthColumns), exitCode: 0 };
}

function renderPlan(report: PlanReport, widthColumns: number | null): string {
  const { jobs, budgets } = report;
  const table = renderTable(
    [
      { name: "job" },
      { name: "read", isNumber: true },
      { name: "due", isNumber: true },
      { name: "unchanged", isNumber: true },
      { name: "duplicate", isNumber: true },
      { name: "waiting", isNumber: true },
      { name: "to send", isNumber: true },
      { name: "calls", isNumber: true },
      { name: "billed (est.)", isNumber: true },
      { name: "time (est.)", isNumber: true },
    ],
    jobs.map((job) => [
      job.job,
      count(job.records_read),
      count(job.records_due),
      count(job.records_unchanged),
      count(job.records_duplicate),
      count(job.records_waiting),
      count(job.records_to_send),
      count(job.calls),
      count(job.estimated_billable.expected),
      job.calls === 0 ? "" : duration(job.estimated_seconds),
    ]),
    widthColumns,
  );
  const remarks = [
    ...jobs.filter((job) => job.records_due > 0).map(remark),
    ...jobs.flatMap(({ job, remarks: found }) => found.map((text) => `${job}: ${text}.`)),
    ...jobs.filter((job) => job.waiting_answers.calls > 0).map(waitingRemark),
  ];
  const left = budgets.length === 0 ? "" : renderBudgets(report, widthColumns);
  return [table, remarks.join("\n"), left, "Nothing was sent or billed."]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** Remark on received answers that are not in the warehouse yet. */
function waitingRemark({ job, waiting_answers: { calls } }: JobPlan): string {
  return `${job}: fewer, because ${counted(calls, "answer")} received by earlier runs will be loaded first.`;
}

/** Reasons why a job's rows are due, and the basis of the estimate. */
function remark(job: JobPlan): string {
  const reasons = Object.entries(job.due_reasons)
    .filter(([, rows]) => rows > 0)
    .map(([reason, rows]) => `${count(rows)} ${reason.replaceAll("_", " ")}`);
  const { low, high, basis } = job.estimated_billable;
  const later = job.records_remaining > 0 ? `, ${counted(job.records_remaining, "row")} deferred` : "";
  const limit = job.limited_by === null ? "" : `; limited by ${job.limited_by}${later}`;
  return `${job.job}: due because ${reasons.join(", ")}; billed ${count(low)} to ${count(high)} (${basis})${limit}`;
}
