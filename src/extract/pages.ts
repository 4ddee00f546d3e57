import { StopJobError } from "../errors.ts";
import { type FreeCall, type FreeEndpoint, fromEnvelope } from "./free-call.ts";
import { RESULTS_PAGE_SIZE } from "../schemas/audience-search.ts";
import {
  booleanOf,
  type Cell,
  countOf,
  type DriftLog,
  fieldName,
  instantText,
  jsonText,
  microsOf,
  pidOf,
} from "../schemas/convert.ts";
import { isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { segmentEndpoints } from "../schemas/segments.ts";

interface ChangeAnswer {
  /** PIDs unknown to the service. */
  readonly invalid: readonly string[];
  /** Number of people added or removed; null if not reported. */
  readonly changed: number | null;
  /** Number of added people who were already members; null if not reported. */
  readonly redundant: number | null;
  readonly newSize: number | null;
}

/** PIDs per call (section 8 advises 1,000 to 10,000). */
export const BATCH_PIDS = 10_000;

export function changeCall(
  endpoint: FreeEndpoint,
  segmentId: string,
  pids: readonly string[],
): FreeCall<ChangeAnswer> {
  return {
    endpoint,
    body: JSON.stringify({ segment_id: segmentId, service_pids: pids }),
    recordsSent: pids.length,
    expects: [404],
    read: fromEnvelope(readChange),
  };
}

function readChange({ results }: JsonObject): ChangeAnswer | null {
  if (!isJsonObject(results)) return null;
  const { invalid_service_pids: invalid = null } = results;
  if (invalid !== null && !Array.isArray(invalid)) return null;
  return {
    invalid: (invalid ?? []).filter((pid): pid is string => typeof pid === "string"),
    changed: countOf(results["n_added"] ?? results["n_deleted"]),
    redundant: countOf(results["n_redundant_additions"]),
    newSize: countOf(results["new_current_size"]),
  };
}

export const readCreated = fromEnvelope(({ segment_id: own, results }) => {
  const id = own ?? (isJsonObject(results) ? results["segment_id"] : null);
  // Lower case, like configured IDs, so that a segment has only one spelling in the tables.
  return typeof id === "string" && id !== "" ? id.toLowerCase() : null;
});

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
  /** Number of items without a PID. */
  readonly unusable: number;
  readonly totalCount: number;
  readonly listContinues: boolean;
  /** True if every item has a PID and a time, PIDs are unique, and times are in order. Other pages can't prove absences. */
  readonly isSound: boolean;
}

/** Builds the call that reads one page of members. @param page from 1 */
export function pageCall(segmentId: string, page: number): FreeCall<MemberPage> {
  const endpoint = segmentEndpoints.members;
  return {
    endpoint,
    path: `${endpoint.path}?segment_id=${encodeURIComponent(segmentId)}&page=${page}`,
    expects: [404],
    read: fromEnvelope((body, drift) => readMemberPage(body, page, drift)),
  };
}

/** Parses a response of `GET /v2/segments/members`; null if it is not the requested page. */
export function readMemberPage(body: JsonObject, page: number, drift: DriftLog): MemberPage | null {
  const { results } = body;
  if (!isJsonObject(results)) return null;
  const { items = null, total_count: total, page: echoed = page, list_continues: continues } = results;
  const totalCount = countOf(total);
  const isAnswer = (items === null || Array.isArray(items)) && totalCount !== null;
  if (!isAnswer || countOf(echoed) !== page) return null;
  drift.noteAround({ ...body, ...results }, ["items", "total_count", "page", "list_continues"]);
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
  const unusable = list.length - members.length;
  return { members, unusable, totalCount, listContinues, isSound: isWhole && isInOrder(members) };
}

function readMember(item: JsonObject, drift: DriftLog): PageMember | null {
  // `last_added_at` is omitted: every attempt to add a member changes it, even without effect.
  const { service_pid: sentPid, first_added_at: addedAt, last_added_at: lastAddedAt, ...rest } = item;
  if (lastAddedAt !== undefined) drift.note("unknown_field", "last_added_at", typeof lastAddedAt);
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

/** One page of results (sections 2.6 and 2.8). */
export interface ResultPage {
  /** `pids`, or `results`. */
  readonly items: readonly unknown[];
  readonly offset: number;
  /** Number of items by which the offset advances. */
  readonly returned: number;
  /** Number of results on all pages. */
  readonly total: number;
  /** Null if not reported. */
  readonly billableCount: number | null;
  readonly unlockedAt: string | null;
}

const pathOf = ({ path }: FreeEndpoint, id: string) => path.replace(/\{\w+\}/u, encodeURIComponent(id));

export function statusCall(endpoint: FreeEndpoint, id: string): FreeCall<JsonObject> {
  return {
    endpoint,
    path: pathOf(endpoint, id),
    read: fromEnvelope((body) => (typeof body["status"] === "string" ? body : null)),
  };
}

/** Builds the call that unlocks results, or reads a page of them. */
export function resultsCall(
  endpoint: FreeEndpoint,
  { id, list, offset }: { readonly id: string; readonly list: string; readonly offset: number },
): FreeCall<ResultPage> {
  return {
    endpoint,
    path: `${pathOf(endpoint, id)}?limit=${RESULTS_PAGE_SIZE}&offset=${offset}`,
    read: fromEnvelope((body, drift) => readPage(body, { list, offset, drift })),
  };
}

/** Members of a page of results around its items. */
const PAGE_MEMBERS = ["segment_id", "job_id", "job_type", "total", "returned", "limit", "offset"];

/** Null if it is not the requested page. */
function readPage(
  body: JsonObject,
  { list, offset, drift }: { readonly list: string; readonly offset: number; readonly drift: DriftLog },
): ResultPage | null {
  const items = body[list] ?? [];
  const total = countOf(body["total"]);
  if (!Object.hasOwn(body, list) || !Array.isArray(items) || total === null) return null;
  if ((countOf(body["offset"]) ?? offset) !== offset) return null;
  const returned = countOf(body["returned"]) ?? items.length;
  // Some items are missing.
  if (items.length < returned) return null;
  drift.noteAround(body, [...PAGE_MEMBERS, list, "billable_count", "unlocked_at"]);
  return {
    items,
    offset,
    returned,
    total,
    billableCount: countOf(body["billable_count"]),
    unlockedAt: instantText(body["unlocked_at"]),
  };
}

/**
 * Reads pages in order until `offset + returned >= total`, some of them ahead. A page shorter than requested makes the
 * next ones start where it ended.
 * @param total number of results, if known; otherwise the first page is read alone
 * @param ahead maximum number of calls in flight
 */
export async function* readPages(
  read: (offset: number) => Promise<ResultPage>,
  {
    from,
    total: known,
    ahead,
  }: { readonly from: number; readonly total: number | null; readonly ahead: number },
): AsyncGenerator<ResultPage> {
  let total = known ?? 0;
  let step = RESULTS_PAGE_SIZE;
  const waiting: { readonly offset: number; readonly page: Promise<ResultPage> }[] = [];
  const drain = () => Promise.allSettled(waiting.splice(0).map(({ page }) => page));
  try {
    for (let offset = from; ; ) {
      for (
        let next = (waiting.at(-1)?.offset ?? offset - step) + step;
        waiting.length < ahead;
        next += step
      ) {
        if (waiting.length > 0 && next >= total) break;
        const page = read(next);
        // Handled when its turn comes, or by drain().
        page.catch(() => {});
        waiting.push({ offset: next, page });
      }
      const page = await waiting.shift()?.page;
      if (!page) return;
      yield page;
      total = page.total;
      const end = page.offset + page.returned;
      if (end >= total) return;
      if (page.returned === 0) {
        throw new StopJobError(
          "page_not_advancing",
          `The page of results at offset ${offset} is empty, but the service reports ${total} results. Run again.`,
        );
      }
      offset = end;
      if (waiting[0] && waiting[0].offset !== end) await drain();
      step = page.returned;
    }
  } finally {
    await drain();
  }
}
