import { z } from "zod";
import { cursorCount, cursorInstant } from "../../load/inputs/cursor-values.ts";
import { unlockIntent } from "./unlock.ts";

/** Checkpoint of an audience search. */
export const audienceCursor = z.object({
  /** Name of the search in the configuration. */
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

/** Parsed {@link audienceCursor}. */
export type AudienceCursor = Readonly<z.output<typeof audienceCursor>>;
