import type { Config } from "../../config/config.ts";
import type { Db } from "../../load/db/db.ts";
import { mostBillable, readAudiences, type StoredAudience } from "../../load/feeds/searches.ts";
import { readCheckpoints } from "../../load/write/commit.ts";
import { type UnlockCost, unlockCost } from "../price.ts";
import { audienceCursor } from "./audience-members.ts";
import { audienceJobOf } from "./audience-search.ts";
import { streamOf } from "./search.ts";

type Shown = Omit<
  StoredAudience,
  "segment_id" | "search_name" | "query" | "estimated_billable_count" | "results_unlocked"
>;

/** A configured audience, in `audience list`. */
export interface AudienceReport extends Shown {
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

export async function reportAudiences(
  config: Pick<Config, "jobs" | "prices">,
  db: Db,
): Promise<readonly AudienceReport[]> {
  const reports: AudienceReport[] = [];
  for (const configured of config.jobs) {
    const job = audienceJobOf(configured);
    if (job === null) continue;
    const checkpoints = await readCheckpoints(db, job.name);
    for (const [search, { query, unlock }] of Object.entries(job.searches)) {
      const { cursor } = checkpoints.find(({ stream }) => stream === streamOf(query)) ?? {};
      const id = audienceCursor.safeParse(cursor).data?.segment_id ?? null;
      const [stored] = id === null ? [] : await readAudiences(db, [id]);
      const most = stored ? mostBillable(stored) : null;
      const isUnlocked = stored?.results_unlocked === true;
      const cost = most === null || isUnlocked ? null : await unlockCost({ config, db }, most);
      reports.push({
        job: job.name,
        search,
        query,
        max_billable: unlock?.maxBillable ?? null,
        segment_id: id,
        status: stored?.status ?? null,
        error_code: stored?.error_code ?? null,
        error_message: stored?.error_message ?? null,
        suggested_search: stored?.suggested_search ?? null,
        materialization_extent: stored?.materialization_extent ?? null,
        total_count: stored?.total_count ?? null,
        most_billable: most,
        results_unlocked: isUnlocked,
        billable_count: stored?.billable_count ?? null,
        unlocked_at: stored?.unlocked_at ?? null,
        members: stored?.members ?? 0,
        ...(cost ? { most_cost: cost } : {}),
      });
    }
  }
  return reports;
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
