import type { Config } from "../../config/config.ts";
import { UNLOCK } from "../../config/schema/prices.ts";
import { countText, timeText } from "../../figures.ts";
import { amountAt, assumptionText, billedNoun, type Cost, costOfBilled } from "../price.ts";
import type { JobServices } from "../services.ts";
import { DAY_MS, dayText } from "../usage/calendar.ts";
import { readLedgerStart } from "../../load/db/identity.ts";
import { type BilledDay, hasCallsBefore, readBilledSince, readStatedPlans } from "../../load/ledger/costs.ts";
import { type BudgetUse, unused } from "../../load/ledger/reserve.ts";
import type { Db } from "../../load/db/db.ts";
import { sumOfAmounts } from "../../money.ts";

/** Records of one endpoint and job at one price, in `costs --json`. Amounts are exact. */
export interface CostLine {
  readonly endpoint: string;
  readonly job: string;
  /** Unit that is billed: `record`, `address` or `match`. */
  readonly billed: string;
  /** 0 within an allowance; null without one. */
  readonly price: number | null;
  readonly currency: string | null;
  readonly records_billed: number;
  readonly amount: number | null;
  readonly possibly_billed: number;
  /** Amount that `possibly_billed` would add to the invoice. */
  readonly possibly_billed_amount: number | null;
}

/** Output of `costs --json`; `currency` is empty without `prices`. */
export interface CostsReport extends Cost {
  /** UTC month, `2026-11`. */
  readonly month: string;
  /** False while calls of the month can follow. */
  readonly is_over: boolean;
  /** Amount if every record in doubt is billed. */
  readonly amount_at_most: number;
  readonly lines: readonly CostLine[];
  /** Items that the invoice may have and the ledger can't state. */
  readonly unknown: readonly string[];
}

/** Reads what an invoice of a UTC month would state; null: the current month. */
export async function reportCosts(
  { config, db, clock }: Pick<JobServices, "config" | "db" | "clock">,
  given: string | null,
): Promise<CostsReport> {
  const current = new Date(clock.now()).toISOString().slice(0, 7);
  const month = given ?? current;
  const rows = await readBilledSince(db, `${month}-01`, `${monthAfter(month)}-01`);
  const currency = config.prices?.currency ?? "";
  const cost = costOfBilled(rows, currency);
  const lines = [
    ...Map.groupBy(rows, ({ endpoint, job, price, currency: own, per }) =>
      JSON.stringify([endpoint, job, price, own, per]),
    ).values(),
  ].map(lineOf);
  const start = await readLedgerStart(db);
  return {
    month,
    is_over: month < current,
    ...cost,
    amount_at_most: Number(sumOfAmounts([cost.amount, cost.possibly_billed_amount].map(String))),
    lines: lines
      .filter((line) => line.records_billed + line.possibly_billed > 0)
      .toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
    unknown: unknownOf(config, lines, start !== null && start > `${month}-01` ? start : null),
  };
}

const keyOf = ({ endpoint, job, price }: CostLine) => `${endpoint} ${job} ${String(price ?? 0).padStart(20)}`;

function monthAfter(month: string): string {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number, 1)).toISOString().slice(0, 7);
}

function lineOf(rows: readonly BilledDay[]): CostLine {
  const sum = (value: (row: BilledDay) => number) => rows.reduce((total, row) => total + value(row), 0);
  const [{ endpoint, job, budget, per, price, currency }] = rows as readonly [BilledDay];
  const [billed, possible] = [sum((row) => row.recordsBilled), sum((row) => row.possiblyBilled)];
  return {
    endpoint,
    job,
    billed: billedNoun(budget, per),
    price: price === null ? null : Number(price),
    currency,
    records_billed: billed,
    amount: price === null ? null : Number(amountAt({ price }, billed)),
    possibly_billed: possible,
    possibly_billed_amount: price === null ? null : Number(amountAt({ price }, possible)),
  };
}

function unknownOf(
  config: Pick<Config, "prices">,
  lines: readonly CostLine[],
  ledgerStart: string | null,
): readonly string[] {
  const doubtful = [...Map.groupBy(lines, ({ job }) => job)].flatMap(([job, own]) => {
    const records = own.reduce((total, line) => total + line.possibly_billed, 0);
    return records === 0 ? [] : [`${countText(records, "record")} of ${job}`];
  });
  const unpriced = lines.reduce((sum, line) => sum + (line.price === null ? line.records_billed : 0), 0);
  return [
    ...(doubtful.length === 0
      ? []
      : [
          `Unconfirmed, because a call had no response or its response omitted them: ${doubtful.join(", ")}. The service may have billed them.`,
        ]),
    ...(unpriced === 0
      ? []
      : [`The price of ${countText(unpriced, "billed record")}: \`prices\` had none when they were sent.`]),
    ...[assumptionText(config)].filter((text) => text !== ""),
    ...(ledgerStart === null
      ? []
      : [`Calls before ${timeText(ledgerStart)}, which \`retention\` removed from the ledger.`]),
    "Use by others in your organization, also of an allowance (the view `usage_reconciliation` has their calls).",
  ];
}

/** Rest of the plan for one kind of records, in `status --json`. */
export interface PlanLeft {
  /** Budget (`enrich`) of `included_per_month`, or endpoint whose 402 stated it (`POST /v2/enrich`). */
  readonly of: string;
  readonly basis: "included_per_month" | "stated";
  /** Records of the allowance; null for what a 402 stated. */
  readonly limit: number | null;
  /** Records billed in the month, or since the 402; those in doubt count. */
  readonly used: number;
  /** Null if more was billed than a 402 had stated: the plan was renewed. */
  readonly left: number | null;
  /** When the service stated it; null for an allowance. */
  readonly stated_at: string | null;
  /** As stated: records available, of them in the allowance and in the overage. */
  readonly stated: Readonly<Record<string, number>> | null;
  /** When it is used up at the pace of a week; null if it isn't (in this month), or while the first run is in that week. */
  readonly lasts_until: string | null;
  /** Seven, or fewer UTC days since the first call. */
  readonly pace_days: number;
}

const PACE_DAYS = 7;

const msOf = (day: string) => Date.parse(`${day}T00:00:00Z`);

const textOf = (endMs: number | null) =>
  endMs === null ? null : new Date(Math.min(endMs, 8.64e15)).toISOString();

/** Reads what is left of configured allowances, and of what the service stated in its last 402 of each endpoint. */
export async function readPlanLeft(
  db: Db,
  { prices }: Pick<Config, "prices">,
  uses: ReadonlyMap<string, BudgetUse>,
  nowMs: number,
): Promise<readonly PlanLeft[]> {
  const since = dayText(Math.floor(nowMs / DAY_MS) - PACE_DAYS + 1);
  const days = await readBilledSince(db, since);
  // Days without a run count, unless they are before the first one.
  const hasEarlier = await hasCallsBefore(db, since);
  const firstMs = hasEarlier ? msOf(since) : Math.min(nowMs, ...days.map(({ day }) => msOf(day)));
  // A pace with the first day in it, on which everything is sent, isn't that of a week.
  const paceDays = Math.min(
    Math.floor((nowMs - firstMs) / DAY_MS) + 1,
    hasEarlier ? PACE_DAYS : PACE_DAYS - 1,
  );
  const endOf = (left: number, isCounted: (row: BilledDay) => boolean): number | null => {
    if (left === 0) return nowMs;
    if (paceDays < PACE_DAYS) return null;
    const billed = days.filter(isCounted).reduce((sum, row) => sum + row.recordsBilled, 0);
    return billed === 0 ? null : nowMs + (left * Math.max(nowMs - firstMs, DAY_MS)) / billed;
  };
  const monthEnds = Date.parse(`${monthAfter(new Date(nowMs).toISOString().slice(0, 7))}-01T00:00:00Z`);
  const included = Object.entries(prices?.byBudget ?? {}).flatMap(([budget, { tiers }]): PlanLeft[] => {
    const [first, next] = tiers;
    if (!first || !next || Number(first.amount) !== 0) return [];
    const { beforeToday, today } = (uses.get(budget) ?? unused).billed;
    const used = beforeToday.most + today.most;
    const left = Math.max(0, next.from - used);
    const endMs = endOf(left, (row) => row.budget === budget);
    return [
      {
        of: budget,
        basis: "included_per_month",
        limit: next.from,
        used,
        left,
        stated_at: null,
        stated: null,
        lasts_until: endMs !== null && endMs < monthEnds ? textOf(endMs) : null,
        pace_days: paceDays,
      },
    ];
  });
  const stated = (await readStatedPlans(db)).map(
    ({ endpoint, at, figures, available, least, most }): PlanLeft => {
      const left = least > available ? null : Math.max(0, available - most);
      const path = endpoint.replace(/^[A-Z]+ \/?/, "");
      return {
        of: endpoint,
        basis: "stated",
        limit: null,
        used: most,
        left,
        stated_at: at,
        stated: figures,
        lasts_until: left === null ? null : textOf(endOf(left, (row) => row.endpoint === path)),
        pace_days: paceDays,
      };
    },
  );
  return [...included, ...stated];
}

/** `enrich: 12,000 of 50,000 included records left this month, used up at 2026-11-28 10:00 UTC at this pace`. */
export function planLeftText({ of, limit, left, stated_at: at, lasts_until: until }: PlanLeft): string {
  const unit = of === UNLOCK ? "unlocked record" : "record";
  if (left === null)
    return `${of}: the plan was renewed since the service reported it at ${timeText(at ?? "")}`;
  const end = left === 0 ? ", used up" : until === null ? "" : `, projected to run out at ${timeText(until)}`;
  return limit === null
    ? `${of}: ${countText(left, unit)} of the plan left, as the service reported at ${timeText(at ?? "")}, minus what was billed since${end}`
    : `${of}: ${countText(left, unit)} left of the ${countText(limit, "record")} included this month (UTC)${end}`;
}
