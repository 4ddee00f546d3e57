import { type Cell, booleanOf, countOf, instantText, microsOf, pidOf } from "../schemas/convert.ts";
import { type DriftLog, fieldName } from "../schemas/drift.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { jsonText } from "../schemas/json-text.ts";
import { segmentEndpoints } from "../schemas/segments.ts";
import { type FreeCall, readEnvelope } from "./free-call.ts";

/** One item of a page. */
export interface PageMember {
  readonly servicePid: string;
  /** Instant; null if missing or invalid. */
  readonly firstAddedAt: Cell;
  /** Undeclared fields as JSON text; null for none. */
  readonly extra: Cell;
}

/** One page of a segment's members, newest first. */
export interface MemberPage {
  readonly members: readonly PageMember[];
  readonly totalCount: number;
  /** True if the service reports another page. */
  readonly listContinues: boolean;
  /** True if every item has a PID and a time, PIDs are unique, and times are in order. Other pages can't prove absences. */
  readonly isSound: boolean;
}

const { members: endpoint } = segmentEndpoints;

/** Builds the call that reads one page of members. @param page from 1 */
export function pageCall(segmentId: string, page: number, drift: DriftLog): FreeCall<MemberPage> {
  return {
    endpoint: endpoint.name,
    method: endpoint.method,
    path: `${endpoint.path}?segment_id=${encodeURIComponent(segmentId)}&page=${page}`,
    body: null,
    expects: [404],
    read: (bytes) => readMemberPage(bytes, page, drift),
  };
}

/** Parses a response of `GET /v2/segments/members`; null if it is not the requested page. */
export function readMemberPage(bytes: Buffer, page: number, drift: DriftLog): MemberPage | null {
  const envelope = readEnvelope(bytes, drift);
  const results = envelope?.["results"];
  if (!isJsonObject(results)) return null;
  const { items = null, total_count: total, page: echoed = page, list_continues: continues } = results;
  const totalCount = countOf(total);
  const isAnswer = (items === null || Array.isArray(items)) && totalCount !== null;
  if (!isAnswer || countOf(echoed) !== page) return null;
  const list: readonly unknown[] = Array.isArray(items) ? items : [];
  const members: PageMember[] = [];
  let isWhole = true;
  for (const item of list) {
    const member = isJsonObject(item) ? readMember(item, drift) : null;
    if (member) members.push(member);
    if (!member || member.firstAddedAt === null) isWhole = false;
  }
  // Without `list_continues`, pages are read until one is empty.
  const listContinues = booleanOf(continues) ?? list.length > 0;
  return { members, totalCount, listContinues, isSound: isWhole && isInOrder(members) };
}

function readMember(item: JsonObject, drift: DriftLog): PageMember | null {
  // `last_added_at` is omitted: every attempt to add a member changes it, even without effect.
  const { service_pid: sentPid, first_added_at: addedAt, last_added_at: _lastAddedAt, ...rest } = item;
  const pid = pidOf(sentPid);
  if (pid === null) {
    drift.note("unexpected_type", "service_pid", typeof sentPid);
    return null;
  }
  const firstAddedAt = instantText(addedAt);
  let extra: Record<string, unknown> | null = null;
  if (firstAddedAt === null && addedAt !== null && addedAt !== undefined) {
    drift.note("unexpected_type", "first_added_at", typeof addedAt);
    extra = { first_added_at: addedAt };
  }
  for (const name in rest) {
    drift.note("unknown_field", fieldName(name), typeof rest[name]);
    extra = { ...extra, [name]: rest[name] };
  }
  const text = extra === null ? null : jsonText(extra);
  return { servicePid: pid, firstAddedAt, extra: typeof text === "string" ? text : null };
}

function isInOrder(members: readonly PageMember[]): boolean {
  let lastUs = Number.POSITIVE_INFINITY;
  let lastText: Cell = null;
  for (const { firstAddedAt } of members) {
    // Most members have the same time as the previous one.
    if (firstAddedAt === lastText) continue;
    const us = firstAddedAt === null ? Number.NaN : microsOf(firstAddedAt);
    if (!(us <= lastUs)) return false;
    lastUs = us;
    lastText = firstAddedAt;
  }
  return new Set(members.map(({ servicePid }) => servicePid)).size === members.length;
}
