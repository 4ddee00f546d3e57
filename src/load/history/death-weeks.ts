import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { readBriefly } from "./read-briefly.ts";

/** Deaths first observed in one week. */
interface DeathWeek {
  /** Monday, `2026-11-16` (UTC). */
  readonly week: string;
  readonly deaths: number;
}

/** Counts deaths by week, for the current week and those before it, oldest first; weeks without any are absent. */
export function readDeathWeeks(db: Db, weeks: number): Promise<readonly DeathWeek[]> {
  return readBriefly(db, (session) =>
    session.rows<DeathWeek>(sql`
    SELECT date_trunc('week', first_observed_at)::date AS week, count(*) AS deaths
    FROM ${tableId(db.names, "death_signal")}
    WHERE first_observed_at >= date_trunc('week', now()) - make_interval(weeks => ${weeks - 1})
    GROUP BY 1 ORDER BY 1`),
  );
}
