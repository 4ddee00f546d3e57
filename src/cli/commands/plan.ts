import type { Command } from "commander";
import { systemClock } from "../../clock.ts";
import { selectJobs } from "../../jobs/job-selection.ts";
import { planJobs } from "../../jobs/report/plan.ts";
import { type Shard, shareLimits, wholeInput } from "../../jobs/shard.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { openConfig } from "../open-config.ts";
import { openConfiguredWarehouse } from "../open-warehouse.ts";
import type { Outcome } from "../outcome.ts";
import { wholeNumber } from "../parse-number.ts";
import { parseShard } from "../parse-shard.ts";
import { createSampleTables } from "../sample-tables.ts";
import { renderPlan } from "../render-plan.ts";

interface PlanFlags {
  readonly resend?: boolean;
  readonly maxRecords?: number;
  readonly shard?: Shard;
  readonly show?: number;
}

/** `plan`: predicts what a run would do. */
export const addPlan: AddCommand = (program, act) => {
  program
    .command("plan")
    .description(
      "predict a run: due records and reasons, calls, estimated billed records and duration; sends nothing",
    )
    .argument("[jobs...]", "configured jobs (default: all)")
    .option("--resend", "predict `run --resend`")
    .option("--max-records <n>", "predict `run --max-records n`", wholeNumber(0))
    .option("--shard <i/n>", "predict `run --shard i/n`", parseShard)
    .option(
      "--show <n>",
      "print the first n requests of each job, with the personal data in them",
      wholeNumber(1, MAX_SHOWN),
    )
    .action((jobs: string[], flags: PlanFlags, command: Command) =>
      act(command, (context) => plan(context, jobs, flags), { jobs: [] }),
    );
};

/** Requests that are held in memory at once per job. */
const MAX_SHOWN = 10;

async function plan(context: Context, names: readonly string[], flags: PlanFlags): Promise<Outcome> {
  const shard = flags.shard ?? wholeInput;
  const config = shareLimits(await openConfig(context), shard);
  const jobs = selectJobs(config, names);
  const { db } = await openConfiguredWarehouse(context, config);
  // Creating sample tables is safe in the embedded database, and without them there is nothing to plan.
  if (config.service.baseUrl === "sandbox" && config.warehouse.url === "embedded") {
    await createSampleTables(config, jobs, db, context);
  }
  const report = await planJobs({ config, db, clock: systemClock }, names, {
    shard,
    resend: flags.resend === true,
    maxRecords: flags.maxRecords ?? null,
    show: flags.show ?? 0,
  });
  return { document: report, text: renderPlan(report, context.widthColumns), exitCode: 0 };
}
