import type { Command } from "commander";
import { FixConfigurationError, StopJobError } from "../../errors.ts";
import { confirm } from "../../jobs/confirm.ts";
import { adviceFor } from "../../advice.ts";
import { runJobs } from "../../jobs/run.ts";
import { exitCodeOf } from "../../jobs/job.ts";
import { type AudienceReport, reportAudiences, withUnlock } from "../../jobs/search/audience-reports.ts";
import { wholeInput } from "../../jobs/services.ts";
import { amountText } from "../../money.ts";
import { unlockCost, unlockCostText } from "../../jobs/price.ts";
import { type AudienceShare, readShares } from "../../load/feeds/searches.ts";
import {
  type AddCommand,
  confirmation,
  type Context,
  newRunId,
  type Outcome,
  result,
  wholeNumber,
} from "../command.ts";
import { count, countText } from "../../figures.ts";
import { openJobServices, openFilled } from "../app.ts";
import { renderRunCost } from "../costs.ts";
import { renderTable } from "../output.ts";

interface UnlockFlags {
  readonly maxBillable?: number;
  readonly yes?: boolean;
}

/** `audience`: lists, shows or unlocks the audiences of `audience_search` jobs. */
export const addAudience: AddCommand = (program, act) => {
  const audience = program.command("audience").description("list, show or unlock audiences");
  audience
    .command("list")
    .description("list the configured audiences with their state and size")
    .action((_flags: object, command: Command) => act(command, list, { audiences: [] }));
  audience
    .command("show")
    .description("show an audience with its demographics")
    .argument("<search>", "name of the search, or JOB/SEARCH")
    .action((name: string, _flags: object, command: Command) =>
      act(command, (context) => show(context, name)),
    );
  audience
    .command("unlock")
    .description("unlock a finished audience, which is billed (asks for confirmation, or needs --yes)")
    .argument("<search>", "name of the search, or JOB/SEARCH")
    .option("--max-billable <n>", "largest charge (default: the size of the audience now)", wholeNumber(0))
    .option("--yes", "skip the confirmation")
    .action((name: string, flags: UnlockFlags, command: Command) =>
      act(command, (context) => unlock(context, name, flags)),
    );
};

async function open(context: Context) {
  const { config, db } = await openFilled(context);
  return { config, db, audiences: await reportAudiences(config, db) };
}

function findAudience(audiences: readonly AudienceReport[], name: string): AudienceReport {
  const found = audiences.filter(({ job, search }) => search === name || `${job}/${search}` === name);
  const [only] = found;
  if (only && found.length === 1) return only;
  const known = audiences.map(({ job, search }) => `${job}/${search}`).join(", ");
  const summary = found.length > 1 ? `Several jobs have a search ${name}.` : `There is no audience ${name}.`;
  const hint = `known audiences: ${known || "none"}`;
  throw new FixConfigurationError("unknown_audience", summary, [
    { path: "audience", message: "is not the name of an audience", hint },
  ]);
}

const number = (value: number | null): string => (value === null ? "" : count(value));

async function list(context: Context): Promise<Outcome> {
  const { audiences } = await open(context);
  if (audiences.length === 0) return result({ audiences }, "No audience is configured.");
  const table = renderTable(
    [
      { name: "audience" },
      { name: "state" },
      { name: "people", isNumber: true },
      { name: "max charge", isNumber: true },
      { name: "max cost", isNumber: true, isSparse: true },
      { name: "unlocked" },
      { name: "billed", isNumber: true },
      { name: "members stored", isNumber: true },
    ],
    audiences.map((one) => [
      `${one.job}/${one.search}`,
      one.status ?? "not submitted",
      number(one.total_count),
      one.results_unlocked ? "" : number(one.most_billable),
      one.most_cost ? amountText(one.most_cost.amount, one.most_cost.currency) : "",
      one.results_unlocked ? "yes" : "no",
      number(one.billable_count),
      count(one.members),
    ]),
    context.widthColumns,
  );
  return result({ audiences }, table);
}

async function show(context: Context, name: string): Promise<Outcome> {
  const { db, audiences } = await open(context);
  const audience = findAudience(audiences, name);
  const shares = audience.segment_id === null ? [] : await readShares(db, audience.segment_id);
  const text = [describe(audience), ...renderShares(shares, context.widthColumns)].join("\n\n");
  const shown = shares.map(({ kind, label, count: people, percentage }) => {
    return { kind, label, count: people, percentage };
  });
  return result({ ...audience, shares: shown }, text);
}

function describe(audience: AudienceReport): string {
  const { job, search, query, segment_id: id, status, total_count: total, most_billable: most } = audience;
  return [
    `${job}/${search}: ${query}`,
    id === null
      ? "Not submitted yet."
      : `${id}: ${status ?? "submitted"}${audience.error_code === null ? "" : ` (${audience.error_code})`}`,
    ...(audience.error_message === null ? [] : [audience.error_message]),
    ...(audience.suggested_search === null ? [] : [`Suggested search: ${audience.suggested_search}`]),
    ...(total === null ? [] : [`${countText(total, "person", "people")} match.`]),
    ...(audience.results_unlocked
      ? [
          `Unlocked; ${countText(audience.billable_count ?? 0, "record")} billed, ${countText(audience.members, "member")} stored.`,
        ]
      : most === null || status !== "completed"
        ? []
        : [
            `Locked; an unlock bills at most ${countText(most, "record")}${unlockCostText(audience.most_cost)}.`,
          ]),
  ].join("\n");
}

function renderShares(shares: readonly AudienceShare[], widthColumns: number | null): readonly string[] {
  return [...Map.groupBy(shares, ({ kind }) => kind)].map(([kind, rows]) =>
    renderTable(
      [
        { name: kind.replaceAll("_", " ") },
        { name: "people", isNumber: true },
        { name: "%", isNumber: true },
      ],
      rows.map(({ label, count: people, percentage }) => [label ?? "", count(people ?? 0), percentage ?? ""]),
      widthColumns,
    ),
  );
}

/** Reason why an audience can't be unlocked. */
function notReady({ job, segment_id: id, status }: AudienceReport): string {
  if (id === null) return `was not submitted yet, so there is nothing to unlock. Run ${job} first.`;
  if (status === "completed")
    return "has no total_count, so an unlock could cost anything. Nothing was unlocked.";
  return `is not completed (${status ?? "submitted"}), so there is nothing to unlock. Run ${job} first.`;
}

async function unlock(context: Context, name: string, flags: UnlockFlags): Promise<Outcome> {
  const { stop } = context;
  const { config, db, audiences } = await open(context);
  const audience = findAudience(audiences, name);
  const { job, search, most_billable: most, results_unlocked: isUnlocked } = audience;
  if (audience.status !== "completed" || most === null) {
    throw new StopJobError("audience_unfinished", `${job}/${search} ${notReady(audience)}`);
  }
  const ceiling = flags.maxBillable ?? most;
  if (!isUnlocked) {
    const cost = unlockCostText(unlockCost(config, most));
    const reason = `unlocking ${search} bills at most ${countText(most, "record")}${cost}; the ceiling is ${count(ceiling)}`;
    await confirm(
      { signal: stop.signal },
      job,
      { yes: flags.yes === true, ...confirmation(context) },
      { kind: "ask", reason },
    );
  }
  const report = await runJobs(await openJobServices(context, withUnlock(config, audience, ceiling), db), {
    jobs: [job],
    fullRefresh: false,
    resend: false,
    maxRecords: null,
    shard: wholeInput,
    runId: newRunId(),
    waitMs: 0,
    yes: true,
    acceptParameters: null,
  });
  const after = findAudience(await reportAudiences(config, db), `${job}/${search}`);
  const [{ error, status, limited_by: limitedBy } = { status: "failed" as const }] = report.jobs;
  // The user asked for the unlock itself, so that a limit of their own is a reason, too.
  const limited =
    limitedBy && !error
      ? `${job}/${search} ${after.results_unlocked ? "is unlocked, but not all members are stored" : "was not unlocked"}: ` +
        `${adviceFor(limitedBy).means} ${adviceFor(limitedBy).next}`
      : null;
  const message = error?.message ?? limited;
  return {
    document: {
      ...after,
      run_status: status,
      ...(limitedBy ? { limited_by: limitedBy } : {}),
      ...(error ? { error } : {}),
    },
    text: [message ? `✗ ${message}` : describe(after), renderRunCost(report)].filter(Boolean).join("\n"),
    exitCode: limitedBy ? 3 : exitCodeOf(report, stop.received()),
  };
}
