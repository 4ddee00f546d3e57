import { StopJobError } from "../errors.ts";
import { RESULTS_PAGE_SIZE } from "../schemas/audience-search.ts";
import { countOf, instantText } from "../schemas/convert.ts";
import type { DriftLog } from "../schemas/drift.ts";
import type { JsonObject } from "../schemas/flatten.ts";
import { type FreeCall, readEnvelope } from "./free-call.ts";

/** Endpoint of an asynchronous search or a contact job; its path has one ID. */
interface ResourceEndpoint {
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly path: string;
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

const pathOf = ({ path }: ResourceEndpoint, id: string) => path.replace(/\{\w+\}/u, encodeURIComponent(id));

/** Builds the call that reads the state of a search or contact job. */
export function statusCall(endpoint: ResourceEndpoint, id: string, drift: DriftLog): FreeCall<JsonObject> {
  return {
    endpoint: endpoint.name,
    method: endpoint.method,
    path: pathOf(endpoint, id),
    body: null,
    read(bytes) {
      const body = readEnvelope(bytes, drift);
      return typeof body?.["status"] === "string" ? body : null;
    },
  };
}

/** Builds the call that unlocks results, or reads a page of them. */
export function resultsCall(
  endpoint: ResourceEndpoint,
  { id, list, offset }: { readonly id: string; readonly list: string; readonly offset: number },
  drift: DriftLog,
): FreeCall<ResultPage> {
  return {
    endpoint: endpoint.name,
    method: endpoint.method,
    path: `${pathOf(endpoint, id)}?limit=${RESULTS_PAGE_SIZE}&offset=${offset}`,
    body: null,
    read: (bytes) => readPage(readEnvelope(bytes, drift), list, offset),
  };
}

/** Null if it is not the requested page. */
function readPage(body: JsonObject | null, list: string, offset: number): ResultPage | null {
  const items = body?.[list] ?? [];
  const total = countOf(body?.["total"]);
  if (body === null || !Object.hasOwn(body, list) || !Array.isArray(items) || total === null) return null;
  if ((countOf(body["offset"]) ?? offset) !== offset) return null;
  const returned = countOf(body["returned"]) ?? items.length;
  // Some items are missing.
  if (items.length < returned) return null;
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
