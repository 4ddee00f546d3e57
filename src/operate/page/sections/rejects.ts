import { html } from "hono/html";
import { count } from "../../../figures.ts";
import { countRejects } from "../../../load/runs/rejects.ts";
import { explainReject } from "../../../schemas/reject-codes.ts";
import { type Html, past, prose, table } from "../elements.ts";
import type { View } from "../view.ts";

/** Renders open rejects by reason, with the command that retries them. */
export async function showRejects({ services, nowMs }: View): Promise<Html> {
  const groups = await countRejects(services.db, { jobs: [], codes: [], rows: [] }, { all: false });
  return table(
    "Open rejects",
    [
      { name: "job" },
      { name: "rejects", isNumber: true },
      { name: "reason", isText: true },
      { name: "newest", isExtra: true },
      { name: "to retry", isText: true },
    ],
    groups.map(({ job, code, rejects, lastAt }) => {
      const { means, todo } = explainReject(code);
      return [
        job,
        count(rejects),
        html`<b>${code}</b>: ${prose(`${means} ${todo}`)}`,
        past(lastAt, nowMs),
        html`<code>person-etl rejects retry --job ${job} --code ${code}</code>`,
      ];
    }),
    "No record is rejected.",
  );
}
