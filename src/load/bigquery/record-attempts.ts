import { sql } from "kysely";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import type { CounterDelta, LedgerEntry, RunRef } from "../warehouse.ts";
import { giveBack } from "./give-back.ts";
import { addCounters, type CounterTerms, NEW_CALLS, settleLedger } from "./ledger.ts";
import { inRunTransaction } from "./run-transaction.ts";
import type { Session } from "./session.ts";

/** What one asker wants noted. */
export interface Attempts {
  readonly entries: readonly LedgerEntry[];
  readonly counters: CounterDelta;
}

const counterNames = Object.keys(runCounters) as RunCounter[];

/** Notes attempts that left no rows, of all who wait, in one transaction; those noted before add nothing. */
export async function recordAttempts(session: Session, run: RunRef, all: readonly Attempts[]): Promise<void> {
  const { names } = session;
  const entries = all.flatMap((attempts) => attempts.entries);
  const ledger = settleLedger(names, run, entries);
  const counted = JSON.stringify(
    all.map(({ entries: [first], counters }) => ({ call: first?.callId ?? null, ...counters })),
  );
  const used = counterNames.filter((name) => all.some(({ counters }) => (counters[name] ?? 0) !== 0));
  const terms: CounterTerms = Object.fromEntries(
    used.map((name) => [
      name,
      sql`SELECT IFNULL(SUM(CAST(JSON_VALUE(e, ${sql.raw(`'$.${name}'`)}) AS INT64)), 0)
        FROM UNNEST(JSON_QUERY_ARRAY(${counted})) AS e
        WHERE JSON_VALUE(e, '$.call') IS NULL OR JSON_VALUE(e, '$.call') IN UNNEST(${NEW_CALLS})`,
    ]),
  );
  await inRunTransaction(session, run, {
    declare: ledger.declare,
    statements: [
      ...ledger.statements,
      ...giveBack(names, run, entries),
      addCounters(names, run, {}, null, terms),
    ],
  });
}
