import { StopJobError } from "../../errors.ts";
import { statusCall } from "../../extract/result-pages.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { type MemberReading, noteReading } from "../../load/feeds/searches.ts";
import type { Commit } from "../../load/write/commit.ts";
import {
  audienceSearchEndpoints,
  finishedSearchStates,
  flattenAudienceSearch,
} from "../../schemas/audience-search.ts";
import { countOf } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { FeedContext } from "../feed-type.ts";
import type { AudienceCursor } from "./audience-cursor.ts";
import { stateOf } from "./state.ts";

const { status } = audienceSearchEndpoints;

/** A configured search, with its position. */
export interface Audience {
  readonly name: string;
  readonly query: string;
  readonly unlock: { readonly maxBillable: number } | null;
  readonly stream: string;
  /** Null before it was submitted. */
  cursor: AudienceCursor | null;
}

/** A search that was submitted. */
export interface SubmittedAudience extends Audience {
  cursor: AudienceCursor & { readonly segment_id: string };
}

/** True if a search has reached its last state. */
export function isFinished({ status: state }: AudienceCursor): boolean {
  return state !== null && finishedSearchStates.has(state);
}

/** True if all members of a search are stored. */
export function isStored({ segment_id: id, stored_segment_id: stored }: AudienceCursor): boolean {
  return id !== null && id === stored;
}

/** Reads the state of a search; null if its status is temporarily unavailable (503). */
export async function readState(
  context: FeedContext,
  audience: SubmittedAudience,
): Promise<JsonObject | null> {
  const { job } = context;
  const { segment_id: id } = audience.cursor;
  const drift = new DriftLog(status.name);
  const call = statusCall(status, id, drift);
  const reply = await context.call({ ...call, asUser: true, expects: [404, 503] });
  if (reply.kind === "answer") {
    await store(context, audience, { body: reply.value, drift });
    return reply.value;
  }
  if (reply.status === 503) return null;
  throw new StopJobError(
    "search_gone",
    `${job.name}: ${status.name}: the service has no search ${id} (404): it was deleted, or belongs to another organization. Its ` +
      `stored rows are kept; \`checkpoint reset ${job.name} --stream ${audience.stream}\` submits ${audience.name} again.`,
  );
}

/** Rows, and writes of the ledger, of one commit about a search. */
interface Stored extends Pick<Commit, "settled"> {
  /** State as answered. */
  readonly body?: JsonObject;
  readonly upserts?: readonly Upsert[];
  readonly drift?: DriftLog;
  /** Changes of the position. */
  readonly cursor?: Partial<Omit<AudienceCursor, "segment_id">>;
  readonly received?: number;
  /** Step of the reading of its members. */
  readonly reading?: MemberReading;
}

/** Commits what is known of a search together with its position; returns how many members were left out as erased. */
export async function store(
  context: FeedContext,
  audience: SubmittedAudience,
  { body, upserts = [], drift, cursor: change, received = 0, settled, reading }: Stored,
): Promise<number> {
  const error = body?.["error"];
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : null;
  const ofBody = body && stateOf(body, code);
  const cursor = { ...audience.cursor, search: audience.name, ...ofBody, ...change };
  const rows = body && drift ? rowsOf(audience, body, drift) : [];
  const { results: stored } = await context.commit({
    upserts: [...rows, ...upserts],
    also: reading && ((writing) => noteReading(writing, cursor.segment_id, reading)),
    settled,
    checkpoints: [{ stream: audience.stream, cursor }],
    counters: { records_received: received },
    drift: drift?.entries() ?? [],
  });
  audience.cursor = cursor;
  return stored.reduce((sum, { suppressed }) => sum + suppressed, 0);
}

/** Rows of a state. A count that was known stays when a later step fails. */
function rowsOf(
  { name, query, cursor }: SubmittedAudience,
  body: JsonObject,
  drift: DriftLog,
): readonly Upsert[] {
  const tables = flattenAudienceSearch(
    { ...body, segment_id: cursor.segment_id },
    { search_name: name, query },
    drift,
  );
  return tables.map(({ table, columns, rows }): Upsert => {
    if (table !== "audience_search")
      return { table, columns, rows, replaces: { segment_id: cursor.segment_id } };
    const isKept = columns.map((column) => column !== "total_count" || countOf(body[column]) !== null);
    return {
      table,
      columns: columns.filter((_, i) => isKept[i]),
      rows: rows.map((row) => row.filter((_, i) => isKept[i])),
    };
  });
}
