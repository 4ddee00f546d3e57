import type { Db } from "../db/db.ts";
import { isMigrated } from "../db/setup.ts";
import { noSuppression } from "../erasure/suppression.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";
import { sql } from "kysely";
import type { ForeignDatabase } from "../inputs/foreign-database.ts";
import type { PlannedPush, PushPlan } from "./push.ts";
import type { Suppression } from "../erasure/suppression.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { countPush, type Difference, listQuery, momentOf, stageWanted } from "./segment-push.ts";
import type { Session } from "../db/session.ts";
import { suppressedSql } from "../erasure/suppressed-sql.ts";

/** What is known of members before the first migration. */
const NOBODY = sql`(SELECT NULL::text AS job, NULL::text AS segment_id, NULL::text AS service_pid, NULL::text AS state,
  false AS is_own, now() AS since, now() AS _synced_at WHERE false)`;

/** Counts what a push would change, in temporary tables; inside a transaction that is rolled back. */
export async function planPush(db: Db, plan: PushPlan): Promise<PlannedPush> {
  const { names } = db;
  const isMade = await isMigrated(db);
  return db.preview(async (session) => {
    const suppression = isMade ? await readSuppression(session, names, db.readErasureSecret) : noSuppression;
    const place = { foreign: db.foreignOf(plan.source), isMigrated: isMade, suppression };
    return countPlanned(session, names, plan, place);
  });
}

async function countPlanned(
  session: Session,
  names: SchemaNames,
  { job, segmentId, source, again }: PushPlan,
  place: {
    /** Null for a query over the warehouse itself. */
    readonly foreign: ForeignDatabase | null;
    readonly isMigrated: boolean;
    readonly suppression: Suppression;
  },
): Promise<PlannedPush> {
  const push: Difference = {
    run: { job },
    segmentId: segmentId ?? "",
    source,
    againSince: momentOf(again),
    wanted: sql`pg_temp.push_wanted`,
    state: place.isMigrated ? tableId(names, "segment_push_member") : NOBODY,
  };
  const found = await stageWanted(session, push, "CREATE TEMP TABLE push_wanted", place.foreign);
  const { key } = place.suppression;
  const suppressed = key
    ? await session.change(
        sql`DELETE FROM ${push.wanted} WHERE ${suppressedSql(names, key).pid("service_pid")}`,
      )
    : 0;
  const counts = await countPush(session, push, { ...found, suppressed });
  const [more] = await session.rows<{ newcomers: number; uncertain: number }>(sql`
    SELECT (SELECT count(*) FROM (${listQuery(push, "adding")}) AS a) AS newcomers,
      (SELECT count(*) FROM ${push.state} AS p
        WHERE job = ${job} AND segment_id = ${push.segmentId} AND state = 'adding') AS uncertain`);
  return {
    ...counts,
    newcomers: more?.newcomers ?? 0,
    uncertain: more?.uncertain ?? 0,
  };
}
