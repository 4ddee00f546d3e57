import { count, durationText } from "../../../figures.ts";
import { type Html, past, state, table } from "../elements.ts";
import type { View } from "../view.ts";

/** Renders the destinations and what they still lack. */
export async function showDestinations({ status, nowMs }: View): Promise<Html> {
  return table(
    "Destinations",
    [
      { name: "destination" },
      { name: "published" },
      { name: "keys waiting", isNumber: true },
      { name: "lag", isNumber: true },
      { name: "rows published", isNumber: true, isExtra: true },
      { name: "compared", isExtra: true },
      { name: "result", isExtra: true },
    ],
    status.publications.map((row) => [
      row.is_configured ? row.destination : `${row.destination} (not configured)`,
      past(row.last_published_at, nowMs),
      count(row.keys_waiting),
      row.lag_seconds === 0 ? "none" : durationText(row.lag_seconds),
      count(row.rows_published),
      past(row.last_verified_at, nowMs),
      differences(row.tables_differing),
    ]),
    "No destination is configured (publish).",
  );
}

function differences(tables: readonly string[] | null): Html | string {
  if (tables === null) return "";
  return tables.length === 0 ? state("good", "equal") : state("bad", `differs: ${tables.join(", ")}`);
}
