import { column } from "../table.ts";
import type { View } from "./view.ts";

/** Freshness of each table; in a destination this is a table of the same name. */
export const tableFreshness: View = {
  name: "table_freshness",
  schema: "ops",
  doc: "When each table was last loaded and changed; incremental readers can read up to `safe_until`.",
  columns: [
    column("table_name", "text", "none", "The table."),
    column(
      "last_success_at",
      "timestamptz",
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    column("last_changed_at", "timestamptz", "none", "Last change of a row."),
    column("safe_until", "timestamptz", "none", "Every row with an older `_synced_at` is committed."),
  ],
  reads: ["sync_run", "table_load"],
  // Rows that are not committed yet have a `_synced_at` after the start of the run, or command, that writes them.
  select: (
    _,
    ref,
  ) => `SELECT table_name, max(last_success_at) AS last_success_at, max(last_changed_at) AS last_changed_at,
  coalesce((SELECT min(r.started_at) FROM ${ref("sync_run")} AS r WHERE r.status = 'running'), now()) AS safe_until
FROM ${ref("table_load")} GROUP BY table_name`,
};
