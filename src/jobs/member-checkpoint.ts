/** What a segment_members job remembers of a segment, as it stands in the checkpoint. */
export interface MemberCheckpoint {
  /** When the last sweep of all pages ended, by the service's clock; null for never. */
  readonly swept_at: string | null;
  /** When the last sweep that showed everybody and left nothing unproven began; null for never. */
  readonly complete_at: string | null;
  /** Members whom that sweep saw and didn't store, because they were erased. */
  readonly suppressed: number;
  /** A sweep that didn't come to its end, and the page with which it goes on; null for none. */
  readonly unfinished: { readonly next_page: number } | null;
}

/** Nothing is known. */
export const neverSwept: MemberCheckpoint = {
  swept_at: null,
  complete_at: null,
  suppressed: 0,
  unfinished: null,
};

/** Reads a stored cursor, which users may have set; what can't be read counts as unknown. */
export function readMemberCheckpoint(cursor: unknown): MemberCheckpoint {
  if (typeof cursor !== "object" || cursor === null) return neverSwept;
  const of = new Map<string, unknown>(Object.entries(cursor));
  const unfinished = of.get("unfinished");
  const page =
    typeof unfinished === "object" && unfinished !== null && "next_page" in unfinished
      ? unfinished.next_page
      : null;
  const suppressed = of.get("suppressed");
  return {
    swept_at: instantOf(of.get("swept_at")),
    complete_at: instantOf(of.get("complete_at")),
    suppressed: typeof suppressed === "number" && suppressed > 0 ? Math.floor(suppressed) : 0,
    unfinished:
      typeof page === "number" && Number.isSafeInteger(page) && page > 0 ? { next_page: page } : null,
  };
}

function instantOf(value: unknown): string | null {
  return typeof value === "string" && !Number.isNaN(Date.parse(value)) ? value : null;
}
