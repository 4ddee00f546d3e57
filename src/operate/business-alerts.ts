import { okAgain, type ReportableState, stateOf, storedState } from "./alerts.ts";
import type { AlertsConfig } from "../config/config.ts";
import { describeForLog } from "../errors.ts";
import { count, countText, percent } from "../figures.ts";
import { type LookupJobConfig, isLookupJob } from "../jobs/lookup/lookup-types.ts";
import type { JobReport, RunReport } from "../jobs/job.ts";
import type { JobServices } from "../jobs/services.ts";
import {
  countDeathsSince,
  exchangeShares,
  lastSignalBefore,
  measureFields,
  measureMatches,
  type Share,
  type Shares,
} from "../load/history/alert-figures.ts";
import { readChangeOfRun } from "../load/history/queries.ts";
import { markFirst, readEvent } from "../load/runs/alerts.ts";

type Services = Pick<JobServices, "config" | "db" | "log">;

/** Shares below this part of the earlier ones are reported. */
const FALLEN = 0.8;

/** Earlier runs that a share is compared with: at most, and at least. */
const COMPARED = { most: 4, least: 2 } as const;

/** Matches or values that must be expected; below, chance alone moves a share by a fifth. */
const LEAST_EXPECTED = 500;

/** Runs are compared with those of this many times their size, or this part of it: a trial says little about a whole input. */
const SIZES = 10;

/**
 * Compares a share with the median of the last comparable runs.
 * @param earlier newest first
 * @returns null if too little is known
 */
export function compareShare(
  now: Share,
  earlier: readonly Share[],
): { readonly before: number; readonly runs: number; readonly isLow: boolean } | null {
  const compared = earlier
    .filter(({ of }) => of * SIZES >= now.of && of <= now.of * SIZES && of > 0)
    .slice(0, COMPARED.most)
    .map(({ known, of }) => known / of)
    .toSorted((a, b) => a - b);
  if (compared.length < COMPARED.least) return null;
  const middle = compared.slice((compared.length - 1) >> 1, (compared.length >> 1) + 1);
  const before = middle.reduce((sum, share) => sum + share, 0) / middle.length;
  if (before * now.of < LEAST_EXPECTED) return null;
  return { before, runs: compared.length, isLow: now.known < FALLEN * before * now.of };
}

/** States of what a run changed in the data, as far as `alerts.on` names it. Never throws. */
export async function statesOfData(
  services: Services,
  report: RunReport,
): Promise<readonly ReportableState[]> {
  const { config, log } = services;
  const { alerts } = config;
  if (alerts === null) return [];
  const isOn = (name: AlertsConfig["on"][number]) => alerts.on.includes(name);
  const states: ReportableState[] = [];
  const add = async (alert: string, read: () => Promise<readonly ReportableState[]>) => {
    try {
      states.push(...(await read()));
    } catch (error) {
      log.warn({ alert, ...describeForLog(error) }, "alert_unreadable");
    }
  };
  const watched = { matches: isOn("match_rate"), fields: isOn("coverage") };
  if (watched.matches || watched.fields) {
    for (const [job, ran] of lookupsOf(services, report)) {
      await add(`shares of ${job.name}`, () => statesOfShares(services, job, ran, { report, watched }));
    }
  }
  if (isOn("deaths")) await add("deaths", () => statesOfDeaths(services, report));
  if (isOn("job_changes")) await add("job_changes", () => statesOfJobChanges(services, report));
  return states;
}

/** Lookup jobs that received answers, with their reports. */
function lookupsOf({ config }: Services, { jobs }: RunReport) {
  return config.jobs
    .filter(isLookupJob)
    .flatMap((job): readonly (readonly [LookupJobConfig, JobReport])[] => {
      const ran = jobs.find((one) => one.job === job.name && one.status !== "locked");
      return ran && ran.records_sent > 0 ? [[job, ran]] : [];
    });
}

const measures: Readonly<Record<string, string>> = {
  new_rows: "new and changed rows",
  all_rows: "all processed rows",
};

async function statesOfShares(
  { db }: Services,
  job: LookupJobConfig,
  ran: JobReport,
  given: {
    readonly report: RunReport;
    readonly watched: { readonly matches: boolean; readonly fields: boolean };
  },
): Promise<readonly ReportableState[]> {
  const { report, watched } = given;
  const shard = report.shard ?? "0/1";
  const run = { runId: report.run_id, job: ran.job, shard, source: job.input.name };
  const shares: Shares = {
    ...(watched.matches ? await measureMatches(db, run) : {}),
    ...(watched.fields && job.type === "enrich" ? await measureFields(db, run) : {}),
  };
  const earlier = await exchangeShares(db, run, shares);
  const name = shard === "0/1" ? job.name : `${job.name} (shard ${shard})`;
  return Object.entries(shares).flatMap(([measure, now]) => {
    const found = compareShare(
      now,
      earlier.flatMap((one) => one[measure] ?? []),
    );
    if (found === null) return [];
    const rows = measures[measure];
    const subject = `${rows ? "match_rate" : "coverage"} ${name} ${measure}`;
    if (!found.isLow) return [okAgain(subject, true)];
    const what = rows
      ? `of ${rows} of ${job.input.name} matched`
      : `of ${peopleOrRows(measure)} have ${measure}`;
    const message = `${name}: ${percent(now.known, now.of)} ${what} (${count(now.known)} of ${count(now.of)}); the median of the ${found.runs} runs before was ${percent(found.before, 1)}.`;
    return [stateOf(subject, rows ? "low_match_rate" : "low_coverage", message, true)];
  });
}

/** Subject of a coverage: people, or rows of a list that they have. */
function peopleOrRows(measure: string): string {
  const [table = "", column] = measure.split(".");
  return column === undefined || table === "person" ? "the people received" : `their rows in ${table}`;
}

const DEATHS = "deaths";

/** People with new death signals, since the last ones that were reported: those of a failed webhook are reported by the next run. */
async function statesOfDeaths(
  { config, db }: Services,
  report: RunReport,
): Promise<readonly ReportableState[]> {
  const types = new Map(config.jobs.map(({ name, type }) => [name, type]));
  const jobs = report.jobs.map(({ job }) => job).filter((job) => types.get(job) === "death_signals");
  if (jobs.length === 0) return [];
  const code = "new_deaths";
  let since = (await readEvent(db, DEATHS))?.reported.slice(code.length + 1);
  if (since === undefined) {
    since = await lastSignalBefore(db, { runId: report.run_id, jobs });
    await markFirst(
      db,
      { subject: DEATHS, state: storedState({ state: code, event: since }) },
      report.run_id,
    );
  }
  const { people, newestAt } = await countDeathsSince(db, since);
  if (newestAt === null) return [];
  const message = `${countText(people, "person in your inputs has", "people in your inputs have")} a first death signal.`;
  return [{ ...stateOf(DEATHS, code, message), event: newestAt }];
}

const JOB_CHANGES = "job_changes";

/** People whose jobs this run changed, or an earlier one whose report failed. */
async function statesOfJobChanges(
  { config, db }: Services,
  report: RunReport,
): Promise<readonly ReportableState[]> {
  const code = "many_job_changes";
  const limit = config.alerts?.jobChangesAbove ?? 0;
  const waiting = (await readEvent(db, JOB_CHANGES))?.waiting?.slice(code.length + 1);
  const changes = [
    { ...report.people_changed, run_id: report.run_id },
    waiting ? await readChangeOfRun(db, waiting) : null,
  ];
  for (const change of changes) {
    const people = change?.by_field_group?.["work_experience"] ?? 0;
    if (!change || people <= limit) continue;
    const message = `The jobs of ${countText(people, "person", "people")} changed in run ${change.run_id}, more than ${count(limit)}.`;
    return [{ ...stateOf(JOB_CHANGES, code, message), event: change.run_id }];
  }
  return [];
}
