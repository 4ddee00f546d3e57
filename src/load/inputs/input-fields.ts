import { enrichListFields, enrichScalarFields } from "../../schemas/enrich.ts";
import { resolveListFields, resolveScalarFields } from "../../schemas/resolve.ts";
import type { LookupType } from "../lookups/lookup.ts";

/** Fields of the input record of each endpoint (sections 2.12 to 2.14). */
export const fieldsTaken: Readonly<Record<LookupType, readonly string[]>> = {
  resolve: [...resolveScalarFields, ...resolveListFields],
  validate_emails: ["emails"],
  enrich: [...enrichScalarFields, ...enrichListFields],
};

/** Fields that hold lists. */
export const listFields: ReadonlySet<string> = new Set(["emails", "phones"]);

/** White space of all scripts. Blank values are omitted from requests. */
export const BLANKS =
  " \t\n\r\f\v\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff";

/** The value without white space around it. A pattern for its end would start again at every blank. */
export function withoutBlanksAround(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && BLANKS.includes(value.charAt(start))) start++;
  while (end > start && BLANKS.includes(value.charAt(end - 1))) end--;
  return value.slice(start, end);
}
