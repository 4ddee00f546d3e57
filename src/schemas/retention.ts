import { tables } from "./registry.ts";

/** Which rows of a table grow old. */
export interface RetentionRule {
  readonly table: string;
  /** Timestamp that a row's age counts from; a row without one is kept. */
  readonly age: string;
  /** Of the rows that are equal in these columns the newest is kept, however old it is. */
  readonly keepNewestOf?: readonly string[];
  /** Column of `warehouse_identity` that tells up to when rows were removed, where their absence would read as zero. */
  readonly noteIn?: string;
}

/** Every table whose rows can be removed by age. What stands for the present (a person, an open reject) never is. */
export const retentionRules = [
  { table: "match_history", age: "valid_to" },
  { table: "segment_membership_history", age: "valid_to" },
  { table: "reject", age: "resolved_at" },
  { table: "sync_run", age: "finished_at", keepNewestOf: ["job", "shard", "status"] },
  { table: "api_call", age: "started_at", noteIn: "ledger_from" },
  { table: "input_coverage", age: "_synced_at", keepNewestOf: ["job", "shard", "source"] },
  { table: "segment_sync", age: "observed_at", keepNewestOf: ["segment_id"] },
  { table: "person_search_quota", age: "observed_at", keepNewestOf: ["org_id"] },
  { table: "call_in_doubt", age: "_synced_at" },
  { table: "schedule_slot", age: "ended_at", keepNewestOf: ["job"] },
  { table: "budget_use", age: "_synced_at" },
] as const satisfies readonly RetentionRule[];

/** A table with a rule. */
export type RetainedTable = (typeof retentionRules)[number]["table"];

/** The rule of a table; null while the table isn't declared. */
export function retentionRuleOf(name: RetainedTable): RetentionRule | null {
  const rule = retentionRules.find(({ table }) => table === name);
  return rule && tables.some((table) => table.name === name) ? rule : null;
}
