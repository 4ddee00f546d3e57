import type { Config } from "../../config/config.ts";
import type { Db } from "../../load/db/db.ts";
import { readCheckpoints } from "../../load/write/checkpoints.ts";
import { mostBillable, readAudiences, type StoredAudience } from "../../load/feeds/searches.ts";
import { type UnlockCost, unlockCost } from "../price.ts";
import { audienceCursor } from "./audience-cursor.ts";
import { type AudienceSearchJobConfig, audienceJobOf } from "./audience-search.ts";
import { streamOf } from "./settings.ts";

/** A configured audience, in `audience list`. */
export interface AudienceReport
  extends Pick<
    StoredAudience,
    | "status"
    | "error_code"
    | "error_message"
    | "suggested_search"
    | "materialization_extent"
    | "total_count"
    | "billable_count"
    | "unlocked_at"
    | "members"
  > {
  readonly job: string;
  readonly search: string;
  readonly query: string;
  /** Largest charge that the configuration accepts; null for never. */
  readonly max_billable: number | null;
  /** Null before it was submitted. */
  readonly segment_id: string | null;
  /** Largest possible charge of an unlock; null if unknown. */
  readonly most_billable: number | null;
  /** Cost of {@link most_billable} while locked; with `prices.unlock`. */
  readonly most_cost?: UnlockCost;
  readonly results_unlocked: boolean;
}

/** Reports all configured audiences. */
export async function reportAudiences(
  config: Pick<Config, "jobs" | "prices">,
  db: Db,
): Promise<readonly AudienceReport[]> {
  const reports: AudienceReport[] = [];
  for (const configured of config.jobs) {
    const job = audienceJobOf(configured);
    if (job) reports.push(...(await reportsOf(job, db)));
  }
  return reports.map((report) => {
    const { most_billable: most, results_unlocked: isUnlocked } = report;
    const cost = most === null || isUnlocked ? null : unlockCost(config, most);
    return cost ? { ...report, most_cost: cost } : report;
  });
}

async function reportsOf(job: AudienceSearchJobConfig, db: Db): Promise<readonly AudienceReport[]> {
  const checkpoints = await readCheckpoints(db, job.name);
  const searches = Object.entries(job.searches).map(([search, { query, unlock }]) => {
    const stored = checkpoints.find(({ stream }) => stream === streamOf(query));
    const id = audienceCursor.safeParse(stored?.cursor).data?.segment_id ?? null;
    return { search, query, id, max: unlock?.maxBillable ?? null };
  });
  const known = await readAudiences(
    db,
    searches.flatMap(({ id }) => (id === null ? [] : [id])),
  );
  return searches.map(({ search, query, id, max }) => {
    const found = known.find((one) => one.segment_id === id) ?? null;
    return { job: job.name, search, query, max_billable: max, segment_id: id, ...factsOf(found) };
  });
}

function factsOf(found: StoredAudience | null) {
  return {
    status: found?.status ?? null,
    error_code: found?.error_code ?? null,
    error_message: found?.error_message ?? null,
    suggested_search: found?.suggested_search ?? null,
    materialization_extent: found?.materialization_extent ?? null,
    total_count: found?.total_count ?? null,
    most_billable: found && mostBillable(found),
    results_unlocked: found?.results_unlocked === true,
    billable_count: found?.billable_count ?? null,
    unlocked_at: found?.unlocked_at ?? null,
    members: found?.members ?? 0,
  };
}

/** Configuration with one search of one job, to be unlocked up to a ceiling, and not submitted again. */
export function withUnlock<C extends Pick<Config, "jobs">>(
  config: C,
  { job: name, search }: Pick<AudienceReport, "job" | "search">,
  maxBillable: number,
): C {
  const jobs = config.jobs.map((configured) => {
    const job = configured.name === name ? audienceJobOf(configured) : null;
    const wanted = job?.searches[search];
    return job && wanted
      ? { ...job, searches: { [search]: { ...wanted, unlock: { maxBillable } } }, refreshAfterMs: null }
      : configured;
  });
  return { ...config, jobs };
}
