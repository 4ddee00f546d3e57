import { column } from "../table.ts";
import { selectFirst } from "./first-rows.ts";
import type { View } from "./view.ts";

/** Best current match of each input row. */
export const identityLink: View = {
  name: "identity_link",
  schema: "data",
  doc: "Best current match of each input row: highest score, then newest match, then first job by name.",
  columns: [
    column("source", "text", "none", "Name of the input."),
    column(
      "source_key",
      "text",
      "direct",
      'The input row\'s key as text; of several columns a JSON array of texts, such as ["2", "K-000097"].',
    ),
    column("service_pid", "text", "direct", "PID of the match."),
    column("job", "text", "none", "Job that found the match."),
    column("match_score", "numeric", "none", "Score of the match."),
    column("matched_at", "timestamptz", "none", "When the row was last matched."),
  ],
  reads: ["resolution", "enrichment"],
  select: (_, ref) => {
    const answers = ["resolution", "enrichment"].map(
      (
        table,
      ) => `  SELECT source, source_key, service_pid, job, match_score, last_matched_at AS matched_at, is_present
  FROM ${ref(table)}`,
    );
    return selectFirst({
      from: `(\n${answers.join("\n  UNION ALL\n")})`,
      columns: ["source", "source_key", "service_pid", "job", "match_score", "matched_at"],
      groupBy: ["source", "source_key"],
      orderBy: ["match_score DESC", "matched_at DESC", "job"],
      // Within the UNION ALL, this would keep Postgres from using the index of the key.
      where: (alias) => `${alias}.is_present AND ${alias}.service_pid IS NOT NULL`,
    });
  },
};
