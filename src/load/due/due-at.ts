import { instantText } from "../../schemas/convert.ts";
import type { LoadSpec } from "../lookup.ts";

/**
 * When an answer expires, as canonical text; null for never. A first answer expires up to a fifth of the refresh age
 * early, by the hash of what was sent, so that one big night doesn't come back as one big night; equal records stay together.
 */
export function dueAt(
  spec: Pick<LoadSpec, "refreshAfterMs" | "refreshUnmatchedAfterMs">,
  answer: {
    readonly outcome: "matched" | "unmatched";
    readonly answeredAt: string;
    /** SHA-256, hex. */
    readonly sentHash: string;
    readonly isFirst: boolean;
  },
): string | null {
  const ageMs =
    answer.outcome === "matched"
      ? spec.refreshAfterMs
      : (spec.refreshUnmatchedAfterMs ?? spec.refreshAfterMs);
  if (ageMs === null) return null;
  const share = Number.parseInt(answer.sentHash.slice(0, 8), 16) / 2 ** 32;
  const factor = answer.isFirst ? 1 - 0.2 * share : 1;
  return instantText(new Date(Date.parse(answer.answeredAt) + ageMs * factor).toISOString());
}
