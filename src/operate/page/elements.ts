import { html } from "hono/html";
import { ago, ahead, count } from "../../figures.ts";
import type { JobServices } from "../../jobs/services.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import type { LedgerHistoryRow } from "../../load/history/queries.ts";

export interface View {
  readonly services: Pick<JobServices, "config" | "db" | "log">;
  readonly status: StatusReport;
  /** Reads the ledger of {@link CHART_DAYS}; once per page, because it is the largest table read. */
  readonly ledger: () => Promise<readonly LedgerHistoryRow[]>;
  /** Time of the page, in milliseconds since the epoch. */
  readonly nowMs: number;
}

export const CHART_DAYS = 90;

/** UTC day some days before an instant: `2026-11-21`. */
export function dayBefore(nowMs: number, days: number): string {
  return new Date(nowMs - days * 86_400_000).toISOString().slice(0, 10);
}

/** Escaped HTML; a promise if a part of it is one. */
export type Html = ReturnType<typeof html>;

/**
 * Column of a table: its name, the content of a row's cell, and its classes. A number is shown with separators, null as nothing.
 * `number`: right-aligned figures; `extra`: left out on narrow screens; `text`: sentences, which wrap.
 */
export type TableColumn<Row> = readonly [
  name: string,
  cell: (row: Row) => Html | string | number | null,
  classes?: "number" | "extra" | "number extra" | "text",
];

/** Renders a table that scrolls by itself on narrow screens; `empty` replaces a table without rows. */
export function table<Row>(
  caption: string,
  empty: string,
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
): Html {
  if (rows.length === 0) return note(empty);
  const cellsOf = (row: Row) =>
    columns.map(([, cell, classes = ""], i) => {
      const content = cell(row);
      const shown = typeof content === "number" ? count(content) : (content ?? "");
      return i === 0
        ? html`<th scope="row" class="${classes}">${shown}</th>`
        : html`<td class="${classes}">${shown}</td>`;
    });
  // On a narrow screen the rows of a table with sentences become blocks.
  const form = columns.some(([, , classes]) => classes === "text") ? "texts" : "figures";
  return html`<div class="scroll" role="region" aria-label="${caption} (table)" tabindex="0"><table class="${form}">
<caption class="hidden">${caption}</caption>
<thead><tr>${columns.map(([name, , classes = ""]) => html`<th scope="col" class="${classes}">${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) => html`<tr>${cellsOf(row)}</tr>
`,
  )}</tbody></table></div>`;
}

/** Renders a remark, such as that there is nothing to show. */
export function note(text: Html | string): Html {
  return html`<p class="note">${text}</p>`;
}

/** Renders a sentence whose code is between backticks. */
export function prose(text: string): Html {
  return html`${text.split("`").map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}

/** Kinds of state, each with a sign that doesn't depend on its color. */
const SIGNS = { good: "✓", busy: "●", warn: "!", bad: "✗", off: "–" } as const;

export type StateKind = keyof typeof SIGNS;

export function state(kind: StateKind, text: string): Html {
  return html`<span class="state ${kind}"><span aria-hidden="true">${SIGNS[kind]}</span> ${text}</span>`;
}

export function past(instant: string | null, nowMs: number): Html {
  return instant === null ? html`never` : timeElement(instant, ago(instant, nowMs));
}

/** Renders the time until an instant, with the instant as its title. */
export function future(instant: string, nowMs: number): Html {
  return timeElement(instant, ahead(instant, nowMs));
}

function timeElement(instant: string, text: string): Html {
  const exact = `${instant.slice(0, 19).replace("T", " ")} UTC`;
  return html`<time datetime="${instant}" title="${exact}">${text}</time>`;
}

/** Renders a share as a bar; the figure stands next to it. */
export function bar(part: number, whole: number, label: string): Html {
  const share = whole === 0 ? 0 : Math.min(1, part / whole);
  return html`<meter min="0" max="1" value="${share.toFixed(4)}" aria-label="${label}"></meter>`;
}
