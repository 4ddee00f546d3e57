import type { PublishResult } from "../jobs/publish/publisher.ts";
import { count, countText } from "../figures.ts";

/** Formats one line per destination. */
export function renderPublication(result: PublishResult): string {
  const { destination, status, batches, rows, tables_differing: differing, seconds, error } = result;
  if (status !== "published") return `✗ ${destination}: ${error?.message ?? status}`;
  const what =
    batches === 0
      ? "is up to date"
      : `${countText(rows, "row")} published in ${countText(batches, "batch", "batches")}, ${seconds.toFixed(1)} s`;
  if (differing === null) return `✓ ${destination}: ${what}`;
  const compared =
    differing.length === 0
      ? "every table equals Postgres"
      : `${count(differing.length)} differed and were republished: ${differing.join(", ")}`;
  return `✓ ${destination}: ${what}; ${compared}`;
}
