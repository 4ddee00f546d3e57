import { matchHistory } from "./answer.ts";
import type { LookupEndpoint } from "./endpoint.ts";
import { deathSignal, segmentDeathSignal } from "./death-signals.ts";
import { enrichEndpoint, enrichment } from "./enrich.ts";
import { erasureEpoch, erasureSubject, missingInputRow, tombstone } from "./erasure.ts";
import * as ops from "./ops.ts";
import { person, personChildren, personPidAlias } from "./person.ts";
import { reject } from "./reject.ts";
import { resolution, resolveEndpoint } from "./resolve.ts";
import { alertState, scheduleSlot } from "./schedule.ts";
import {
  segment,
  segmentMember,
  segmentMembershipHistory,
  segmentPushMember,
  segmentSync,
} from "./segments.ts";
import { callInDoubt, lookupState, personState } from "./state.ts";
import type { Table } from "./table.ts";
import * as usage from "./usage.ts";
import { emailValidation, inputEmail, validateEmailsEndpoint } from "./validate-emails.ts";

/** Every declared call that takes batches of records. */
export const lookupEndpoints: readonly LookupEndpoint[] = [
  resolveEndpoint,
  validateEmailsEndpoint,
  enrichEndpoint,
];

/** Every declared table, parents before children: DDL, comments, erasure and tests walk this list. */
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
  segmentPushMember,
  deathSignal,
  segmentDeathSignal,
  reject,
  lookupState,
  personState,
  callInDoubt,
  tombstone,
  missingInputRow,
  ops.warehouseIdentity,
  ops.syncRun,
  ops.jobLock,
  ops.checkpoint,
  ops.apiCall,
  ops.schemaDrift,
  ops.inputCoverage,
  ops.tableLoad,
  ops.jobParameters,
  ops.budgetUse,
  ops.syncGap,
  segmentSync,
  usage.personSearchUsageDaily,
  usage.personSearchQuota,
  usage.endpointUsage,
  usage.endpointUsageBucket,
  scheduleSlot,
  alertState,
  erasureSubject,
  erasureEpoch,
];

/** The declared table of that name; throws when there is none. */
export function tableNamed(name: string): Table {
  const found = tables.find((t) => t.name === name);
  if (!found) throw new Error(`No table ${name} is declared.`);
  return found;
}
