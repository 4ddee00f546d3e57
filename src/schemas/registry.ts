import { matchHistory } from "./answer.ts";
import * as audience from "./audience-search.ts";
import { contactJob, contactJobResult } from "./contact-jobs.ts";
import type { LookupEndpoint } from "./endpoint.ts";
import { deathSignal, segmentDeathSignal } from "./death-signals.ts";
import { enrichEndpoint, enrichment } from "./enrich.ts";
import * as ops from "./ops.ts";
import { erasureKey, erasureRequest, erasureSubject, reject, tombstone } from "./ops.ts";
import { person, personChildren, personPidAlias } from "./person.ts";
import { personSearch, personSearchCoverage, personSearchResult } from "./person-search.ts";
import { resolution, resolveEndpoint } from "./resolve.ts";
import {
  alertState,
  budgetUse,
  jobLock,
  jobRequest,
  lookupAnswer,
  lookupDue,
  lookupJob,
  lookupRow,
  personState,
  scheduleSlot,
  spoolPlace,
  tableLoad,
} from "./state.ts";
import {
  segment,
  segmentMember,
  segmentMembershipHistory,
  segmentListed,
  segmentPushMember,
  segmentSync,
} from "./segments.ts";
import type { Schema, Table } from "./table.ts";
import { views } from "./views/all-views.ts";
import * as usage from "./usage.ts";
import { emailValidation, inputEmail, validateEmailsEndpoint } from "./validate-emails.ts";

/** Every declared endpoint that takes batches of records. */
export const lookupEndpoints: readonly LookupEndpoint[] = [
  resolveEndpoint,
  validateEmailsEndpoint,
  enrichEndpoint,
];

/** Tables of searches and contact jobs. */
const searchTables: readonly Table[] = [
  personSearch,
  personSearchCoverage,
  personSearchResult,
  audience.audienceSearch,
  audience.audienceSearchCoverage,
  audience.audienceSearchDistribution,
  audience.audienceSearchMember,
  contactJob,
  contactJobResult,
];

/** Every declared table, parents before children; used by DDL, comments, erasure and tests. */
export const tables: readonly Table[] = [
  resolution,
  enrichment,
  matchHistory,
  emailValidation,
  inputEmail,
  person,
  ...personChildren,
  personPidAlias,
  segment,
  segmentMember,
  segmentMembershipHistory,
  segmentListed,
  segmentPushMember,
  deathSignal,
  segmentDeathSignal,
  ...searchTables,
  reject,
  lookupRow,
  lookupAnswer,
  lookupDue,
  personState,
  tombstone,
  ops.warehouseIdentity,
  ops.syncRun,
  jobLock,
  jobRequest,
  ops.checkpoint,
  ops.apiCall,
  ops.schemaDrift,
  ops.inputCoverage,
  tableLoad,
  spoolPlace,
  lookupJob,
  budgetUse,
  ops.syncGap,
  segmentSync,
  usage.personSearchUsageDaily,
  usage.personSearchQuota,
  usage.endpointUsage,
  usage.endpointUsageBucket,
  scheduleSlot,
  alertState,
  erasureSubject,
  erasureKey,
  erasureRequest,
];

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
