import { tables } from "./registry.ts";

/** Retention rule of a table. */
export interface RetentionRule {
  readonly table: string;
  /** Timestamp of a row's age; rows where it is null are kept. */
  readonly age: string;
  /** The newest row per value of these columns is always kept. */
  readonly keepNewestOf?: readonly string[];
  /** Column of `warehouse_identity` for the time up to which rows were removed, needed if missing rows would count as zero. */
  readonly noteIn?: string;
}

/** Tables whose rows can be removed by age. Current state (people, open rejects) is never removed. */
export const retentionRules = [
  { table: "match_history", age: "valid_to" },
  { table: "segment_membership_history", age: "valid_to" },
  { table: "reject", age: "resolved_at" },
  { table: "sync_run", age: "finished_at", keepNewestOf: ["job", "shard", "status"] },
  // `started_at` is by the clock of the machine that called.
  { table: "api_call", age: "_synced_at", noteIn: "ledger_from" },
  { table: "input_coverage", age: "_synced_at", keepNewestOf: ["job", "shard", "source"] },
  { table: "segment_sync", age: "observed_at", keepNewestOf: ["segment_id"] },
  { table: "person_search_quota", age: "observed_at", keepNewestOf: ["org_id"] },
  { table: "schedule_slot", age: "ended_at", keepNewestOf: ["job"] },
  { table: "budget_use", age: "_synced_at" },
] as const satisfies readonly RetentionRule[];

/** Name of a table with a rule. */
export type RetainedTable = (typeof retentionRules)[number]["table"];

/** Rule of a table; null if the table isn't declared. */
export function retentionRuleOf(name: RetainedTable): RetentionRule | null {
  const rule = retentionRules.find(({ table }) => table === name);
  return rule && tables.some((table) => table.name === name) ? rule : null;
}
