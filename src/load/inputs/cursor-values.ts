import { z } from "zod";
import { instantText } from "../../schemas/convert.ts";

const INSTANT = "must be an instant with its zone, such as 2026-11-21T04:00:00Z";

/** An instant in a stored cursor, as text; without a zone it would be another one on another machine. */
export const cursorInstant = z
  .string(INSTANT)
  .refine((text) => /(?:[Zz]|[+-]\d\d(?::?\d\d)?)$/u.test(text) && instantText(text) !== null, INSTANT);

/** A calendar day. */
export const cursorDay = z.iso.date("must be a day such as 2026-11-18");
