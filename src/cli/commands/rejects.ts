import type { Config } from "../../config/config.ts";
import type { Db } from "../../load/db/db.ts";
import { countRejects, dropRejects, type RejectFilter, retryRejects } from "../../load/runs/rejects.ts";
import { type Command, Option } from "commander";
import { findJob } from "../../jobs/job-selection.ts";
import { readRejects, type RejectReport } from "../../jobs/report/explain-row.ts";
import {
  type Act,
  type AddCommand,
  type Context,
  type Outcome,
  parseSourceKey,
  requireYes,
  result,
  wholeNumber,
} from "../command.ts";
import { count, countText } from "../../figures.ts";
import { openConfig, openFilledWarehouse } from "../app.ts";
import { renderTable } from "../output.ts";

interface FilterFlags {
  readonly job: readonly string[];
  readonly code: readonly string[];
  readonly sourceKey: readonly string[];
}

interface ListFlags extends FilterFlags {
  readonly all?: boolean;
  readonly limit: number;
}

interface ChangeFlags extends FilterFlags {
  readonly yes?: boolean;
}

const none: readonly string[] = [];
const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];
const repeatable = (flags: string, description: string): Option =>
  new Option(flags, description).argParser(collect).default(none, "all");

/** `rejects`: list, retry or drop records that could not be processed. */
export const addRejects: AddCommand = (program, act) => {
  const rejects = program
    .command("rejects")
    .description("list, retry or drop records that could not be processed");
  withFilter(
    rejects.command("list").description("count and list open rejects, with the meaning of their codes"),
  )
    .option("--all", "include resolved rejects")
    .option("--limit <n>", "show at most this many records, newest first", wholeNumber(0), 20)
    .action((flags: ListFlags, command: Command) => act(command, (context) => list(context, flags)));
  addChange(rejects, act, {
    name: "retry",
    description: "read and send them again in the job's next run",
    question: "will be read and sent again in the job's next run, and may be billed",
    change: async (db, filter) => await retryRejects(db, filter),
    describe: ({ rejects, due }) =>
      `✓ ${countText(due ?? rejects, "rejected row")} will be sent in the next run of their job.` +
      (rejects === due
        ? ""
        : ` ${countText(rejects - (due ?? 0), "other reject")} will be checked in every run anyway.`),
  });
  addChange(rejects, act, {
    name: "drop",
    description: "resolve them; their rows are sent again only after a change",
    question: "will be resolved without a retry",
    change: async (db, filter) => ({ rejects: await dropRejects(db, filter) }),
    describe: ({ rejects }) => `✓ ${countText(rejects, "reject")} resolved.`,
  });
};

/** Counts after a change of rejects. */
interface Changed {
  readonly rejects: number;
  readonly due?: number;
  readonly resolved?: number;
}

interface Change {
  readonly name: string;
  readonly description: string;
  readonly question: string;
  readonly change: (db: Db, filter: RejectFilter) => Promise<Changed>;
  readonly describe: (changed: Changed) => string;
}

function withFilter(command: Command): Command {
  return command
    .addOption(repeatable("--job <name>", "only this job; repeatable"))
    .addOption(repeatable("--code <code>", "only this code; repeatable"))
    .addOption(repeatable("--source-key <source/key>", "only this input row; repeatable"));
}

function addChange(rejects: Command, act: Act, wanted: Change): void {
  withFilter(rejects.command(wanted.name).description(wanted.description))
    .option("--yes", "skip the confirmation")
    .action((flags: ChangeFlags, command: Command) =>
      act(command, (context) => change(context, flags, wanted)),
    );
}

function filterOf({ job, code, sourceKey }: FilterFlags, { inputs }: Config): RejectFilter {
  return { jobs: job, codes: code, rows: sourceKey.map((key) => parseSourceKey(key, inputs)) };
}

/** Throws if a named job is unknown. Jobs that are no longer configured may have rejects, so it is checked if none is found. */
function checkJobs(config: Config, names: readonly string[]): void {
  for (const name of names) findJob(config, name);
}

async function list(context: Context, flags: ListFlags): Promise<Outcome> {
  const config = await openConfig(context);
  const filter = filterOf(flags, config);
  const db = await openFilledWarehouse(context, config);
  const report = await readRejects(db, filter, { all: flags.all === true, limit: flags.limit });
  if (report.rejects === 0) checkJobs(config, flags.job);
  return result(report, renderList(report, context.widthColumns));
}

function renderList({ rejects, groups, records }: RejectReport, widthColumns: number | null): string {
  if (rejects === 0) return "✓ No rejected records.";
  const meanings = new Map(
    groups.map(({ code, means, what_to_do }) => [code, `• ${code}: ${means}\n  → ${what_to_do}`]),
  );
  const shown =
    records.length === 0
      ? []
      : [
          renderTable(
            [{ name: "job" }, { name: "source" }, { name: "key" }, { name: "code" }, { name: "rejected at" }],
            records.map((row) => [row.job, row.source, row.source_key ?? "(none)", row.code, row.created_at]),
            widthColumns,
          ),
        ];
  const left = rejects - records.length;
  return [
    renderTable(
      [
        { name: "job" },
        { name: "stage" },
        { name: "code" },
        { name: "records", isNumber: true },
        { name: "newest" },
      ],
      groups.map((group) => [group.job, group.stage, group.code, count(group.rejects), group.last_at]),
      widthColumns,
    ),
    [...meanings.values()].join("\n"),
    ...shown,
    ...(left > 0 && records.length > 0
      ? [`${countText(left, "more", "more")} not shown; --limit shows more.`]
      : []),
  ].join("\n\n");
}

async function change(context: Context, flags: ChangeFlags, wanted: Change): Promise<Outcome> {
  const config = await openConfig(context);
  const filter = filterOf(flags, config);
  const db = await openFilledWarehouse(context, config);
  const groups = await countRejects(db, filter, { all: false });
  const rejects = groups.reduce((sum, group) => sum + group.rejects, 0);
  if (rejects === 0) {
    checkJobs(config, flags.job);
    return result({ rejects: 0 }, "✓ No rejected record matches.");
  }
  await requireYes(context, flags.yes, `${countText(rejects, "rejected record")} ${wanted.question}`);
  const changed = await wanted.change(db, filter);
  return result(changed, wanted.describe(changed));
}
