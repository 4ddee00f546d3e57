import { z } from "zod";
import { StopJobError } from "../../errors.ts";
import { statusCall } from "../../extract/pages.ts";
import type { FeedContext } from "../feed.ts";
import { stateOf, unlockIntent } from "./charges.ts";
import { type MemberReading, noteReading } from "../../load/feeds/searches.ts";
import { type Commit, cursorCount, cursorInstant } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import {
  audienceSearchEndpoints,
  finishedSearchStates,
  flattenAudienceSearch,
} from "../../schemas/audience-search.ts";
import { countOf, type DriftLog } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";

export const audienceCursor = z.object({
  search: z.string("must be the name of a search"),
  submitted_at: cursorInstant,
  /** True while a submit has no answer; the rest is about the search before it. */
  is_pending: z.boolean("must be true or false").default(false),
  /** Null before the first answer. */
  segment_id: z.string("must be the ID of a segment").nullable().default(null),
  /** Last state; null before the first reading. */
  status: z.string("must be a state").nullable().default(null),
  error_code: z.string("must be a code").nullable().default(null),
  /** An unlock whose charge is not known yet. */
  unlock: unlockIntent.nullable().default(null),
  /** Position of the reading of the members; null if none is under way. */
  pages: z
    .object({ offset: cursorCount, total: cursorCount, suppressed: cursorCount })
    .nullable()
    .default(null),
  /** Newest segment whose members are all stored. */
  stored_segment_id: z.string("must be the ID of a segment").nullable().default(null),
});

export type AudienceCursor = Readonly<z.output<typeof audienceCursor>>;

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
  const call = { ...statusCall(status, id), asUser: true as const, expects: [404, 503] };
  const reply = await context.call(call);
  if (reply.kind === "answer") {
    await store(context, audience, { body: reply.value, drift: reply.drift });
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
