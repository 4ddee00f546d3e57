import { openFilled, openJobServices } from "../app.ts";
import { confirmation, type Context, newRunId, result } from "../command.ts";
import { renderRunCost } from "../costs.ts";
import { paragraphs, table, type Text } from "../output.ts";
import { adviceFor } from "../../advice.ts";
import { FixConfigurationError, StopJobError } from "../../errors.ts";
import { count, countText } from "../../figures.ts";
import { confirm } from "../../jobs/confirm.ts";
import { exitCodeOf } from "../../jobs/job.ts";
import { unlockCost, unlockCostText } from "../../jobs/price.ts";
import { runJobs } from "../../jobs/run.ts";
import { type AudienceReport, reportAudiences, withUnlock } from "../../jobs/search/audience-reports.ts";
import { plainRun } from "../../jobs/services.ts";
import { type AudienceShare, readShares } from "../../load/feeds/searches.ts";
import { amountText } from "../../money.ts";

interface UnlockFlags {
  readonly maxBillable?: number;
  readonly yes?: boolean;
}

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

export async function list(context: Context) {
  const { audiences } = await open(context);
  if (audiences.length === 0) return result({ audiences }, "No audience is configured.");
  const text = table(audiences, {
    audience: ({ job, search }) => `${job}/${search}`,
    state: ({ status }) => status ?? "not submitted",
    people: (one) => one.total_count,
    "max charge": (one) => (one.results_unlocked ? null : one.most_billable),
    "max cost": ({ most_cost: cost }) => (cost ? amountText(cost.amount, cost.currency) : null),
    unlocked: (one) => (one.results_unlocked ? "yes" : "no"),
    billed: (one) => one.billable_count,
    "members stored": (one) => one.members,
  });
  return result({ audiences }, text);
}

export async function show(context: Context, _flags: object, name: string) {
  const { db, audiences } = await open(context);
  const audience = findAudience(audiences, name);
  const stored = audience.segment_id === null ? [] : await readShares(db, audience.segment_id);
  const shares = stored.map((share) => ({
    kind: share.kind,
    label: share.label,
    count: share.count,
    percentage: share.percentage,
  }));
  const text = paragraphs(describe(audience), ...renderShares(shares));
  return result({ ...audience, shares }, text);
}

function describe(audience: AudienceReport): readonly string[] {
  const { job, search, query, segment_id: id, status, total_count: total, most_billable: most } = audience;
  const code = audience.error_code === null ? "" : ` (${audience.error_code})`;
  return [
    `${job}/${search}: ${query}`,
    id === null ? "Not submitted yet." : `${id}: ${status ?? "submitted"}${code}`,
    audience.error_message ?? "",
    audience.suggested_search === null ? "" : `Suggested search: ${audience.suggested_search}`,
    total === null ? "" : `${countText(total, "person", "people")} match.`,
    audience.results_unlocked
      ? `Unlocked; ${countText(audience.billable_count ?? 0, "record")} billed, ${countText(audience.members, "member")} stored.`
      : "",
    !audience.results_unlocked && most !== null && status === "completed"
      ? `Locked; an unlock bills up to ${countText(most, "record")}${unlockCostText(audience.most_cost)}.`
      : "",
  ];
}

function renderShares(shares: readonly AudienceShare[]): readonly Text[] {
  return [...Map.groupBy(shares, ({ kind }) => kind)].map(([kind, rows]) =>
    table(rows, {
      [kind.replaceAll("_", " ")]: ({ label }) => label,
      people: ({ count: people }) => people ?? 0,
      "%": ({ percentage }) => percentage,
    }),
  );
}

/** Reason why an audience can't be unlocked. */
function notReady({ job, segment_id: id, status }: AudienceReport): string {
  if (status === "completed")
    return "has no total_count yet, so the cost of an unlock is unknown. Nothing was unlocked.";
  const state = id === null ? "was not submitted yet" : `is not completed (${status ?? "submitted"})`;
  return `${state}, so there is nothing to unlock. Run ${job} first.`;
}

/** Unlocks a finished audience, which is billed. */
export async function unlock(context: Context, flags: UnlockFlags, name: string) {
  const { stop } = context;
  const { config, db, audiences } = await open(context);
  const audience = findAudience(audiences, name);
  const { job, search, most_billable: most } = audience;
  if (audience.status !== "completed" || most === null) {
    throw new StopJobError("audience_unfinished", `${job}/${search} ${notReady(audience)}`);
  }
  const ceiling = flags.maxBillable ?? most;
  if (!audience.results_unlocked) {
    const cost = unlockCostText(await unlockCost({ config, db }, most));
    const reason = `unlocking ${search} bills up to ${countText(most, "record")}${cost}; the ceiling is ${count(ceiling)}`;
    const request = { yes: flags.yes === true, ...confirmation(context) };
    await confirm({ signal: stop.signal }, job, request, { kind: "ask", reason });
  }
  const services = await openJobServices(context, withUnlock(config, audience, ceiling), db);
  const report = await runJobs(services, { ...plainRun, jobs: [job], runId: newRunId(), yes: true });
  const after = findAudience(await reportAudiences(config, db), `${job}/${search}`);
  const [{ error, status, limited_by } = { status: "failed" as const }] = report.jobs;
  let message = error?.message;
  if (limited_by && !error) {
    // The user asked for the unlock itself, so that a limit of their own is a reason, too.
    const state = after.results_unlocked
      ? "is unlocked, but not all of its members are stored"
      : "was not unlocked";
    const { means, next } = adviceFor(limited_by);
    message = `${job}/${search} ${state}: ${means} ${next}`;
  }
  return {
    document: {
      ...after,
      run_status: status,
      ...(limited_by ? { limited_by } : {}),
      ...(error ? { error } : {}),
    },
    text: paragraphs([...(message ? [`✗ ${message}`] : describe(after)), renderRunCost(report)]),
    exitCode: limited_by ? 3 : exitCodeOf(report, stop.received()),
  };
}
