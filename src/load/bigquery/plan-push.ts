import { sql } from "kysely";
import { type ForeignDatabase, PUSH_READING, type Reading } from "../foreign-database.ts";
import type { PlannedPush, PushPlan } from "../push-warehouse.ts";
import type { Suppression } from "../suppression.ts";
import { type OpenedInput, openLocalInput } from "./foreign-input.ts";
import { quoteLiteral, tableText } from "./names.ts";
import { sizeOf } from "./scan-size.ts";
import {
  changeColumns,
  type Changes,
  type Difference,
  type Given,
  listQuery,
  momentOf,
  pushCounts,
  stageStatements,
} from "./segment-push.ts";
import type { Session } from "./session.ts";

/** What is known of members before the first migration. */
const NOBODY = `(SELECT '' AS job, '' AS segment_id, '' AS service_pid, '' AS state, FALSE AS is_own,
  CURRENT_TIMESTAMP() AS since, CURRENT_TIMESTAMP() AS _synced_at
  FROM UNNEST([1]) AS n WHERE n = 0)`;

/** Counts what a push would change, by one script, whose tables end with it. */
export async function planPush(
  session: Session,
  { job, segmentId, source, again }: PushPlan,
  place: {
    /** Opens a query of another database; null for one in BigQuery. */
    readonly openForeign: ((reading: Reading) => Promise<OpenedInput>) | null;
    readonly foreign: ForeignDatabase | null;
    readonly hasSegments: boolean;
    readonly suppression: Suppression;
  },
): Promise<PlannedPush> {
  const { names } = session;
  const push: Difference = {
    againSince: momentOf(again),
    wanted: "push_wanted",
    state: place.hasSegments ? tableText(names, "data", "segment_push_member") : NOBODY,
    ofJob: `p.job = ${quoteLiteral(job)} AND p.segment_id = ${quoteLiteral(segmentId ?? "")}`,
  };
  const opened = place.openForeign
    ? await place.openForeign(PUSH_READING)
    : await openLocalInput(session, { input: source, type: PUSH_READING.type }, PUSH_READING);
  try {
    const known = `SELECT p.service_pid, p.state, p.is_own${again === null ? "" : ", p.since, p._synced_at"} FROM ${push.state} AS p
      WHERE ${push.ofJob}`;
    const bytes = await sizeOf(session, [
      ...(place.foreign ? [] : [opened.rawRows]),
      ...(place.hasSegments ? [known] : []),
    ]);
    const staging = { read: opened.rawRows, wanted: push.wanted, create: `CREATE TEMP TABLE ${push.wanted}` };
    const { statements, given } = stageStatements(names, place.suppression, staging);
    const [found] = await session.script<Given & Changes & Pick<PlannedPush, "newcomers" | "uncertain">>(
      statements,
      sql.raw(`SELECT g.*, ${changeColumns(push)},
        (SELECT COUNT(*) FROM (${listQuery(push, "adding")}) AS n) AS newcomers,
        (SELECT COUNT(*) FROM ${push.state} AS p WHERE ${push.ofJob} AND p.state = 'adding') AS uncertain
        FROM (SELECT ${given} FROM push_row) AS g`),
    );
    if (!found) throw new Error("a script that counts gave no row");
    return {
      ...pushCounts(found, found),
      newcomers: found.newcomers,
      uncertain: found.uncertain,
      bytesToScan: bytes + ((await place.foreign?.scannedBytes(source, PUSH_READING)) ?? 0),
    };
  } finally {
    await opened.close();
  }
}
