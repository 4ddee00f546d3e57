import { z } from "zod";
import { instantText } from "../../schemas/convert.ts";

const INSTANT = "must be an instant with a time zone, such as 2026-11-21T04:00:00Z";

const COUNT = "must be a count: a whole number, 0 or more";

/** Count in a checkpoint. */
export const cursorCount = z.int(COUNT).min(0, COUNT);

/** Instant of a stored cursor as text; without a zone it would depend on the machine. */
export const cursorInstant = z
  .string(INSTANT)
  .refine((text) => /(?:[Zz]|[+-]\d\d(?::?\d\d)?)$/u.test(text) && instantText(text) !== null, INSTANT);

/** Calendar day. */
export const cursorDay = z.iso.date("must be a day such as 2026-11-18");
