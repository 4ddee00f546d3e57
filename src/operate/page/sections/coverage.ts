import { html } from "hono/html";
import { count, countText, percent } from "../../../figures.ts";
import { readFieldCoverage, type TableCoverage } from "../../../load/history/field-coverage.ts";
import { bar, type Html, note, past, table } from "../elements.ts";
import type { View } from "../view.ts";

/** Renders how much of the inputs is answered, and of the people known. */
export async function showCoverage({ services, status, nowMs }: View): Promise<Html> {
  const fields = await readFieldCoverage(services.db);
  return html`${inputs(status, nowMs)}
<h3>Fields of people</h3>${
    fields.every(({ rows }) => rows === 0)
      ? note("No people are stored yet.")
      : html`${fields.filter(({ rows }) => rows !== 0).map(renderTable)}`
  }`;
}

function inputs({ jobs }: View["status"], nowMs: number): Html {
  const known = jobs.flatMap(({ job, coverage }) => (coverage === null ? [] : [{ job, ...coverage }]));
  return table(
    "Rows of inputs",
    [
      { name: "job" },
      { name: "input", isExtra: true },
      { name: "rows", isNumber: true },
      { name: "answered", isNumber: true },
      { name: "matched", isNumber: true },
      { name: "rejected", isNumber: true, isExtra: true },
      { name: "due", isNumber: true },
      { name: "oldest answer", isExtra: true },
    ],
    known.map((row) => [
      row.job,
      row.source,
      count(row.input_rows),
      percent(row.answered, row.input_rows),
      percent(row.matched, row.answered),
      count(row.rejected),
      count(row.due),
      past(row.oldest_answer_at, nowMs),
    ]),
    "No job has read an input yet.",
  );
}

function renderTable({ table: name, rows, isEstimated, fields }: TableCoverage, at: number): Html {
  if (rows === null) {
    return html`<details><summary>${name} <span>no figures</span></summary>${note(
      "The server has not collected statistics of this large table yet (ANALYZE).",
    )}</details>`;
  }
  const least = fields.toSorted((a, b) => a.rowsKnown - b.rowsKnown)[0];
  const about = isEstimated ? "about " : "";
  const remark = least ? `; least known: ${least.column}, ${percent(least.rowsKnown, rows)}` : "";
  return html`<details${at === 0 ? html` open` : ""}><summary>${name} <span>${about}${countText(rows, "row")}${remark}</span></summary>
<ul class="fields">${fields.map(
    ({
      column,
      rowsKnown,
    }) => html`<li><span>${column}</span>${bar(rowsKnown, rows, `${name}.${column}: known`)}<span class="number">${percent(rowsKnown, rows)}</span></li>
`,
  )}</ul></details>`;
}
