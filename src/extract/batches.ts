import type { LookupEndpoint } from "../schemas/answer.ts";
import type { ErrorBody, ErrorDetail } from "../schemas/error-body.ts";

/** Record to send, with its history in this run. */
export interface Entry<T> {
  readonly item: T;
  /** Calls that contained it. */
  readonly calls: number;
  /** Calls that may have billed it without returning its result. */
  readonly unansweredCalls: number;
  /** True if an answer had results for most records of its call, but not for this one. */
  readonly wasLeftOut: boolean;
}

/** State shared by all pieces of a batch; changed by its queue only. */
export interface Origin {
  /** Position in source order. */
  readonly number: number;
  readonly size: number;
  /** Pieces with records that have no outcome yet. */
  openPieces: number;
  /** Records that were rejected or given up. */
  failedRecords: number;
  /** Reason of the last rejection; null for none. */
  signature: string | null;
  /** Calls since the service first rejected some of its records; null before that. */
  isolationCalls: number | null;
}

/** Records for one call. */
export interface Batch<T> {
  readonly entries: readonly Entry<T>[];
  readonly origin: Readonly<Origin>;
  /** Attempts rejected without being billed. */
  readonly refusals: number;
  /** Earliest time to send it. */
  readonly dueAtMs: number;
  /** True if its last call was made alone because of the capacity. */
  readonly wasTight: boolean;
}

export interface BatchSize {
  /** Maximum that the service accepts, as far as is known. */
  readonly cap: number;
  /** Maximum for the next call. */
  readonly limit: number;
  /** Moving averages; null before the first answer. */
  readonly plainBytesPerRecord: number | null;
  readonly bodyBytesPerRecord: number | null;
}

/** Largest answer that came through so far, by its records and by its bytes as received. */
export interface Passed {
  readonly records: number;
  readonly bytes: number;
}

/** Remaining credits of the plan. */
export interface Capacity {
  /** True after the first 402: only one call at a time. */
  readonly isTight: boolean;
  /** 402 responses; those to concurrent calls count as one. */
  readonly refusals: number;
  /** Records available according to the last 402, minus those answered since; 0 means unknown. */
  readonly available: number;
}

const TARGET_ANSWER_BYTES = 4 * 1024 * 1024;
/** Weight of the newest answer in the moving averages. */
const NEWEST_WEIGHT = 0.3;
/** The limit grows only by at least this factor, so that batches keep the same size. */
const GROWTH = 1.5;
/** Expected bytes of a record in a body as received, before the first answer. */
const FIRST_BODY_BYTES = 8 * 1024;
/** Maximum 402 responses before the plan counts as used up. */
const MAX_CAPACITY_REFUSALS = 3;

function average(before: number | null, newest: number): number {
  return before === null ? newest : before + NEWEST_WEIGHT * (newest - before);
}

/** Size after an answer to this many records; smaller if answers are too large. */
export function sizeAfterAnswer(
  size: BatchSize,
  { plainBytes, bodyBytes }: { readonly plainBytes: number; readonly bodyBytes: number },
  records: number,
): BatchSize {
  if (records === 0) return size;
  const { cap, limit } = size;
  const plainBytesPerRecord = average(size.plainBytesPerRecord, plainBytes / records);
  const bodyBytesPerRecord = average(size.bodyBytesPerRecord, bodyBytes / records);
  const fitting = Math.max(1, Math.min(cap, Math.floor(TARGET_ANSWER_BYTES / plainBytesPerRecord)));
  const isChanged = fitting < limit || fitting === cap || fitting >= limit * GROWTH;
  return { cap, limit: isChanged ? fitting : limit, plainBytesPerRecord, bodyBytesPerRecord };
}

/** Least records of a call after answers that were cut: no link cuts answers that are smaller. */
export const LEAST_AFTER_CUT = 4;

/** Size after a call with this many records that was too large, or whose answer was. */
export function sizeAfterTooLarge(size: BatchSize, records: number, least = 1): BatchSize {
  // Smaller batches don't help a record that is too large on its own.
  if (records <= least) return size;
  const cap = Math.min(size.cap, Math.max(least, Math.floor(records / 2)));
  return { ...size, cap, limit: Math.min(size.limit, cap) };
}

/** Capacity after a 402 with the number of records that it reports as available (null for none); null if it is used up. */
export function capacityAfterRefusal(
  { isTight, refusals: earlier }: Capacity,
  available: number | null,
  wasTight: boolean,
): { readonly capacity: Capacity; readonly isUsedUp: boolean } {
  // Concurrent calls are rejected together, which counts as one rejection.
  const refusals = wasTight || !isTight ? earlier + 1 : earlier;
  const capacity = { isTight: true, refusals, available: available ?? 0 };
  return { capacity, isUsedUp: capacity.available === 0 || refusals > MAX_CAPACITY_REFUSALS };
}

/** Creates a batch of records that are in no other. */
export function createBatch<T>(number: number, entries: readonly Entry<T>[]): Batch<T> {
  const origin: Origin = {
    number,
    size: entries.length,
    openPieces: 1,
    failedRecords: 0,
    signature: null,
    isolationCalls: null,
  };
  return { entries, origin, refusals: 0, dueAtMs: 0, wasTight: false };
}

/** Splits a batch after `count` records into two pieces; the second is null if empty. */
export function cutBatch<T>(batch: Batch<T>, count: number): readonly [Batch<T>, Batch<T> | null] {
  if (batch.entries.length <= count) return [batch, null];
  const origin: Origin = batch.origin;
  origin.openPieces += 1;
  const { entries } = batch;
  return [
    { ...batch, entries: entries.slice(0, count) },
    { ...batch, entries: entries.slice(count) },
  ];
}

export function withoutItems<T>(batch: Batch<T>, isOut: (item: T) => boolean): Batch<T> {
  return { ...batch, entries: batch.entries.filter(({ item }) => !isOut(item)) };
}

export function itemsOf<T>(entries: readonly Entry<T>[]): T[] {
  return entries.map((entry) => entry.item);
}

/** Number of earlier calls that may have billed a record without returning its result. */
export function possiblyBilledCalls({ item, unansweredCalls }: Entry<LookupItem>): number {
  return unansweredCalls + (item.mayBeBilled ? 1 : 0);
}

export function firstSize(maxRecords: number): BatchSize {
  return { cap: maxRecords, limit: maxRecords, plainBytesPerRecord: null, bodyBytesPerRecord: null };
}

/** Memory of a record and its outcome, besides the text of the answer. */
const RECORD_BYTES = 4 * 1024;

/** Memory for reading an answer. @param unpackedBytes size after decompression; 0 for an uncompressed body */
export function memoryFor(records: number, bodyBytes: number, unpackedBytes: number): number {
  return records * RECORD_BYTES + bodyBytes + unpackedBytes;
}

export function expectedMemory(
  { bodyBytesPerRecord, plainBytesPerRecord }: BatchSize,
  records: number,
): number {
  const [body, plain] = [bodyBytesPerRecord ?? FIRST_BODY_BYTES, plainBytesPerRecord ?? 0];
  return Math.ceil(memoryFor(records, records * body, plain > body ? records * plain : 0));
}

/** Distinct record to send. */
export interface LookupItem {
  /** Record as JSON text, without `record_id`; for e-mail validation, the address as a JSON string. */
  readonly json: string;
  /** Unique in the run; contains no personal data. */
  readonly recordId: string;
  /** For e-mail validation, the address as sent. */
  readonly address?: string;
  /** True for as many records as earlier runs left possibly billed, whichever they were: only the ledger counts them. Absent for false. */
  readonly mayBeBilled?: boolean;
}

/** Builds the request of a call, to send it or to show it; concatenates records without parsing them. */
export function buildRequest(
  { path, pairing }: Pick<LookupEndpoint, "path" | "pairing">,
  parameters: object,
  items: readonly LookupItem[],
) {
  const records = items.map(({ json, recordId }) => {
    if (pairing !== "record_id") return json;
    const id = `{"record_id":${JSON.stringify(recordId)}`;
    return json === "{}" ? `${id}}` : `${id},${json.slice(1)}`;
  });
  const further = JSON.stringify(parameters);
  const rest = further === "{}" ? "}" : `,${further.slice(1)}`;
  return { method: "POST" as const, path, body: `{"records":[${records.join(",")}]${rest}` };
}

/** Maximum calls for finding the rejected records of one batch; the rest is set aside. */
export const MAX_ISOLATION_CALLS = 64;

/** Rejected part of a record and the type expected there; never a value. */
export interface Fault {
  /** Path inside the record (`emails.0`); empty for the record as a whole. */
  readonly path: string;
  readonly type: string | null;
}

const RECORDS = "records";
const INDEX = /^\d+$/u;
const FIELD = /^[\w-]{1,64}$/u;

/** Faults of the records that a rejection names, by their position in the call. */
export function faultsByRecord(error: ErrorBody, recordCount: number): ReadonlyMap<number, readonly Fault[]> {
  const faults = new Map<number, Fault[]>();
  for (const { loc, type } of error.details) {
    const at = loc.indexOf(RECORDS);
    const index = indexIn(loc);
    if (index === null || index >= recordCount) continue;
    faults.set(index, [...(faults.get(index) ?? []), { path: pathText(loc.slice(at + 2)), type }]);
  }
  return faults;
}

/** Paths of a rejection that is about the request itself, so that smaller batches would also be rejected; null if it isn't. */
export function faultsOutside({ details }: ErrorBody): string | null {
  if (details.length === 0 || !details.every(isOutside)) return null;
  const places = details.map(({ loc, type }) => `${pathText(loc)}${type === null ? "" : ` (${type})`}`);
  return [...new Set(places)].slice(0, 5).join(", ");
}

/** Signature of a rejection, independent of the number of records named. */
export function refusalSignature(status: number, error: ErrorBody): string {
  const [first] = error.details;
  const shape = first ? `${pathText(first.loc).replaceAll(/\d+/gu, "*")} ${first.type ?? ""}` : "";
  return [status, error.code ?? "", shape].join(" ").trim();
}

/** Position of the record that a path leads to; null if it leads elsewhere. */
function indexIn(loc: readonly string[]): number | null {
  const part = loc.includes(RECORDS) ? loc[loc.indexOf(RECORDS) + 1] : undefined;
  return part !== undefined && INDEX.test(part) ? Number(part) : null;
}

/** True for a detail about a part of the request outside its records. */
function isOutside({ loc }: ErrorDetail): boolean {
  const isWhole = loc.length === 0 || (loc.length === 1 && loc[0] === "body");
  return !isWhole && indexIn(loc) === null;
}

function pathText(parts: readonly string[]): string {
  // A part that doesn't look like a field name may be a value.
  return parts.map((part) => (FIELD.test(part) ? part : "?")).join(".");
}
