import { type LookupEndpoint, matchHistory } from "./answer.ts";
import * as audience from "./audience-search.ts";
import { contactJob, contactJobResult } from "./contact-jobs.ts";
import { enrichEndpoint, enrichment } from "./enrich.ts";
import { apiCall, priceTier } from "./ledger.ts";
import * as ops from "./ops.ts";
import { personSearch, personSearchCoverage, personSearchResult } from "./person-search.ts";
import { person, personChildren, personHistory, personPidAlias } from "./person.ts";
import { resolution, resolveEndpoint } from "./resolve.ts";
import * as segments from "./segments.ts";
import * as state from "./state.ts";
import type { Schema, Table } from "./table.ts";
import * as usage from "./usage.ts";
import { emailValidation, inputEmail, validateEmailsEndpoint } from "./validate-emails.ts";
import { type declaredViews, views } from "./views/all-views.ts";

/** Every declared endpoint that takes batches of records. */
export const lookupEndpoints: readonly LookupEndpoint[] = [
  resolveEndpoint,
  validateEmailsEndpoint,
  enrichEndpoint,
];

/** Parents before children. */
const declaredTables = [
  resolution,
  enrichment,
  matchHistory,
  emailValidation,
  inputEmail,
  person,
  ...personChildren,
  personHistory,
  personPidAlias,
  segments.segment,
  segments.segmentMember,
  segments.segmentMembershipHistory,
  segments.segmentListed,
  segments.segmentPushMember,
  segments.deathSignal,
  segments.segmentDeathSignal,
  personSearch,
  personSearchCoverage,
  personSearchResult,
  audience.audienceSearch,
  audience.audienceSearchCoverage,
  audience.audienceSearchDistribution,
  audience.audienceSearchMember,
  contactJob,
  contactJobResult,
  ops.reject,
  state.lookupRow,
  state.lookupAnswer,
  state.lookupDue,
  state.personState,
  ops.tombstone,
  ops.warehouseIdentity,
  ops.syncRun,
  state.jobLock,
  state.jobRequest,
  ops.checkpoint,
  apiCall,
  priceTier,
  ops.schemaDrift,
  ops.inputCoverage,
  state.tableLoad,
  state.spoolPlace,
  state.lookupJob,
  state.budgetUse,
  ops.syncGap,
  segments.segmentSync,
  usage.personSearchUsageDaily,
  usage.personSearchQuota,
  usage.endpointUsage,
  usage.endpointUsageBucket,
  state.scheduleSlot,
  state.alertState,
  state.runShare,
  ops.erasureSubject,
  ops.erasureKey,
  ops.erasureRequest,
] as const;

/** Every declared table, parents before children; used by DDL, comments, erasure and tests. */
export const tables: readonly Table[] = declaredTables;

type Relation =
  | (typeof declaredTables)[number]
  | Extract<(typeof declaredViews)[number], { readonly row?: unknown }>;

/** Columns of every declared table and view, by `SCHEMA.NAME` with the declared schema; values as the driver returns them. */
export type Database = {
  readonly [R in Relation as `${R["schema"]}.${R["name"]}`]: R extends { readonly row?: infer Row }
    ? Row
    : never;
};

const tablesByName: ReadonlyMap<string, Table> = new Map(tables.map((table) => [table.name, table]));

const schemas: ReadonlyMap<string, Schema> = new Map(
  [...tables, ...views].map((one) => [one.name, one.schema]),
);

/** Looks up a declared table; throws if it doesn't exist. */
export function tableNamed(name: string): Table {
  const found = tablesByName.get(name);
  if (!found) throw new Error(`No table ${name} is declared.`);
  return found;
}

/** Looks up the schema of a declared table or view; throws if it doesn't exist. */
export function schemaOf(name: string): Schema {
  const found = schemas.get(name);
  if (!found) throw new Error(`No table or view ${name} is declared.`);
  return found;
}

export interface RetentionRule {
  readonly table: string;
  /** The setting below `retention`, or a fixed number of days. */
  readonly keep: "history" | "operations" | "rejects" | number;
  /** Timestamp of a row's age; rows where it is null are kept. */
  readonly age: string;
  /** The newest row per value of these columns is always kept. */
  readonly keepNewestOf?: readonly string[];
  /** Column of `warehouse_identity` for the time up to which rows were removed, needed if missing rows would count as zero. */
  readonly noteIn?: string;
}

/** Tables whose rows can be removed by age. Current state (people, open rejects) is never removed. */
export const retentionRules = [
  { table: "match_history", keep: "history", age: "valid_to" },
  { table: "person_history", keep: "history", age: "valid_to" },
  { table: "segment_membership_history", keep: "history", age: "valid_to" },
  { table: "reject", keep: "rejects", age: "resolved_at" },
  { table: "sync_run", keep: "operations", age: "finished_at", keepNewestOf: ["job", "shard", "status"] },
  // `started_at` is by the clock of the machine that called.
  { table: "api_call", keep: "operations", age: "_synced_at", noteIn: "ledger_from" },
  {
    table: "input_coverage",
    keep: "operations",
    age: "_synced_at",
    keepNewestOf: ["job", "shard", "source"],
  },
  { table: "segment_sync", keep: "operations", age: "observed_at", keepNewestOf: ["segment_id"] },
  { table: "person_search_quota", keep: "operations", age: "observed_at", keepNewestOf: ["org_id"] },
  { table: "schedule_slot", keep: 90, age: "ended_at", keepNewestOf: ["job"] },
  { table: "budget_use", keep: 400, age: "_synced_at" },
] as const satisfies readonly RetentionRule[];
