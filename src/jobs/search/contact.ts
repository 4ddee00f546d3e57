import { z } from "zod";
import { cursorCount } from "../../load/inputs/cursor-values.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import type { Commit } from "../../load/write/commit.ts";
import { flattenContactJob } from "../../schemas/contact-jobs.ts";
import type { DriftLog } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { FeedContext } from "../feed-type.ts";
import { stateOf } from "./state.ts";
import { unlockIntent } from "./unlock.ts";

/** Checkpoint of a contact job. */
export const contactCursor = z.object({
  /** Last state; null before the first reading. */
  status: z.string("must be a state").nullable().default(null),
  error_code: z.string("must be a code").nullable().default(null),
  /** An unlock, or a page, whose charge is not known yet. */
  unlock: unlockIntent.nullable().default(null),
  /** Unit that is billed (section 8): the job when it is unlocked, or each page; null before the first page. */
  billing: z.enum(["unlock", "page"]).nullable().default(null),
  /** Position of the next page. */
  offset: cursorCount.default(0),
  /** Number of results on all pages, as the last one reported; null before the first page. */
  total: cursorCount.nullable().default(null),
  /** Charge so far; null before the first page. */
  billable_count: cursorCount.nullable().default(null),
  unlocked_at: z.string("must be an instant").nullable().default(null),
  /** True once all results are stored. */
  is_stored: z.boolean("must be true or false").default(false),
});

/** Parsed {@link contactCursor}. */
type ContactCursor = Readonly<z.output<typeof contactCursor>>;

/** A contact job with its position. */
export interface Contact {
  readonly id: string;
  cursor: ContactCursor;
}

/** Rows, and writes of the ledger, of one commit about a contact job. */
interface Stored extends Pick<Commit, "settled"> {
  /** State as answered. */
  readonly body?: JsonObject;
  readonly upserts?: readonly Upsert[];
  readonly drift?: DriftLog;
  /** Changes of the position. */
  readonly cursor?: Partial<ContactCursor>;
  readonly received?: number;
}

/** Commits what is known of a contact job together with its position. */
export async function storeContact(
  context: FeedContext,
  contact: Contact,
  { body, upserts = [], drift, cursor: change, received = 0, settled }: Stored,
): Promise<void> {
  const ofBody = body && stateOf(body, body["error_code"]);
  const cursor = { ...contact.cursor, ...ofBody, ...change };
  const billable = cursor.billable_count === null ? null : String(cursor.billable_count);
  const charged = { billable_count: billable, unlocked_at: cursor.unlocked_at };
  // A page was answered, so the results are unlocked, whatever the state said before.
  const known = {
    job_id: contact.id,
    ...charged,
    ...(cursor.billing === null ? {} : { results_unlocked: "true" }),
  };
  const row =
    body && drift
      ? [flattenContactJob({ ...body, job_id: contact.id }, charged, drift)]
      : [{ table: "contact_job", columns: Object.keys(known), rows: [Object.values(known)] }];
  await context.commit({
    upserts: [...row, ...upserts],
    settled,
    checkpoints: [{ stream: contact.id, cursor }],
    counters: { records_received: received },
    drift: drift?.entries() ?? [],
  });
  contact.cursor = cursor;
}
