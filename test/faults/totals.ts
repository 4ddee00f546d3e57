import type { World } from "../jobs/world.ts";
import { requestsOfJobs } from "../support/requests-of-jobs.ts";
import { ledgerAt } from "../support/sandbox-control.ts";

/**
 * Records that the jobs of a type may send in the disturbed nights: fewer than are due. Validation has no budget: if it ends
 * early, the next job sends addresses not yet known to be invalid.
 */
export const PER_DAY = { resolve: 300, enrich: 240 } as const;

/** Compares the totals of all runs with the service's counts. */
export async function findWrongTotals(world: World, mayBillTwice: boolean): Promise<string[]> {
  const ledger = await ledgerAt(world.sandbox.url);
  const { contents } = ledger;
  const requests = requestsOfJobs(ledger);
  const [ours] =
    await world.rows(`SELECT count(*) AS attempts, count(*) FILTER (WHERE settled_at IS NULL) AS open,
    coalesce(sum(records_possibly_billed_twice), 0) AS twice FROM person_data_ops.api_call`);
  const [run] = await world.rows(
    "SELECT sum(possibly_billed_twice) AS twice, sum(requests) AS requests FROM person_data_ops.sync_run",
  );
  const [attempts, twice] = [Number(ours?.["attempts"]), Number(run?.["twice"])];
  const defects: string[] = [];
  if (attempts !== requests)
    defects.push(`${requests} requests reached the service, ${attempts} are in the ledger`);
  if (attempts !== Number(run?.["requests"]))
    defects.push(`${attempts} are in the ledger, ${run?.["requests"]} in the runs`);
  if (ours?.["open"] !== "0") defects.push(`${ours?.["open"]} calls never ended`);
  if (twice !== Number(ours?.["twice"]))
    defects.push(`possibly billed twice: ${ours?.["twice"]} in the ledger, ${twice} in the runs`);
  if (contents.billed_again > (mayBillTwice ? twice : 0)) {
    defects.push(`${contents.billed_again} records were billed again, ${twice} are reported`);
  }
  return defects;
}

/** Compares the service's charges with the ledger's billed and reserved records. */
export async function findWrongCharges(world: World): Promise<string[]> {
  const { endpoints } = await ledgerAt(world.sandbox.url);
  const ours = await world.rows(`SELECT endpoint, sum(records_reserved) AS reserved,
    coalesce(sum(CASE budget WHEN 'validate_emails' THEN records_sent ELSE records_matched END)
      FILTER (WHERE http_status = 200 AND NOT possibly_billed), 0) AS known
    FROM person_data_ops.api_call GROUP BY 1`);
  return ours.flatMap(({ endpoint, reserved, known }) => {
    const billed = endpoints[endpoint ?? ""]?.billed ?? 0;
    return Number(known) <= billed && billed <= Number(reserved)
      ? []
      : [`${endpoint}: ${billed} records were billed, the ledger knows of ${known} and holds ${reserved}`];
  });
}

/** Finds budgets that were exceeded or differ from the ledger. */
export async function findExceeded(world: World): Promise<string[]> {
  const rows = await world.rows(`SELECT budget, records_reserved AS used, (SELECT sum(records_reserved)
      FROM person_data_ops.api_call AS c WHERE c.budget = u.budget
        AND to_char(c.reserved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') = u.period_key) AS ledger
    FROM person_data_state.budget_use AS u WHERE period = 'day'`);
  const most = new Map<string | null, number>(Object.entries(PER_DAY));
  const mostOf = (budget: string | null | undefined) => most.get(budget ?? null) ?? Number.POSITIVE_INFINITY;
  return rows
    .filter(({ budget, used, ledger }) => Number(used) > mostOf(budget) || used !== ledger)
    .map(
      ({ budget, used, ledger }) => `${budget}: ${used} of ${mostOf(budget)} used, ${ledger} in the ledger`,
    );
}
