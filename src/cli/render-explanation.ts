import type { ExplainedJob, ExplainedRow, RowExplanation } from "../jobs/report/explain-row.ts";
import { countText, timeText } from "../figures.ts";
import { renderRequest } from "./render-request.ts";

/** Formats what is known of an input row: first where it is, then each job, then what belongs to the row. */
export function renderExplanation(report: RowExplanation): string {
  const { jobs, emails, rejects, calls } = report;
  return [
    headline(report),
    ...jobs.map((job) => renderJob(report, job)),
    section(
      "E-mail addresses",
      emails.map(({ email_address: address, email_validation_status: status, request_completed_at: at }) =>
        status === null && at === null
          ? `${address}: not validated`
          : `${address}: ${status ?? "unknown to the service"}${at === null ? "" : `, ${timeText(at)}`}`,
      ),
    ),
    section(
      "Open rejects",
      rejects.map(({ job, code, message, created_at: at }) => `${job}: ${code}, ${timeText(at)}. ${message}`),
    ),
    section(
      "Last calls",
      calls.map(
        (call) =>
          `${timeText(call.started_at)} ${call.job}: ${call.endpoint}, ${call.http_status ?? "no answer"}, ` +
          `${countText(call.records_sent, "record")}, run ${call.run_id}, request ${call.api_request_id ?? "without an ID"}`,
      ),
    ),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function headline(report: RowExplanation): string {
  const name = `${report.source}/${report.source_key}`;
  if (!report.is_known) return `✗ ${name} is not in the input, and no table has it.`;
  if (report.is_erased) return `• ${name} was erased; nothing of it is stored or sent.`;
  if (report.is_left_out_by_where)
    return `• ${name} is in the table, but \`where:\` of the input leaves it out.`;
  if (report.is_in_input) return `✓ ${name} is in the input.`;
  const since = report.missing_since === null ? "" : `; missing since ${timeText(report.missing_since)}`;
  return `• ${name} is not in the input any more${since}.`;
}

function renderJob({ is_in_input: isInInput }: RowExplanation, job: ExplainedJob): string {
  const title = `${job.job} (${job.type}${job.is_enabled ? "" : ", disabled"})`;
  const lines = [
    ...(isInInput && job.rows.length === 0 ? ["• No address to validate."] : []),
    ...job.rows.flatMap(rowLines),
    ...(job.delay === null ? [] : [`→ ${job.delay}`]),
    ...resultLines(job),
    ...requestLines(job),
  ];
  return lines.length === 0 ? "" : [title, ...indent(lines)].join("\n");
}

const MARKS: Readonly<Record<ExplainedRow["verdict"], string>> = {
  due: "•",
  unchanged: "✓",
  duplicate: "✓",
  waiting: "•",
  rejected: "!",
  suppressed: "!",
};

const WORDS: Readonly<Record<ExplainedRow["verdict"], string>> = {
  due: "Due",
  unchanged: "Not due",
  duplicate: "Duplicate",
  waiting: "Waiting",
  rejected: "Rejected",
  suppressed: "Suppressed",
};

function rowLines({ verdict, reason, explanation, advice, address }: ExplainedRow): readonly string[] {
  const code = verdict === "rejected" && reason !== null ? ` (${reason})` : "";
  const about = address === undefined ? "" : `${address}: `;
  return [
    `${MARKS[verdict]} ${about}${WORDS[verdict]}${code}: ${sentence(explanation)}`,
    ...(advice === null ? [] : [`  → ${advice}`]),
  ];
}

function requestLines({ request, rows }: ExplainedJob): readonly string[] {
  if (request === null) return [];
  const condition = rows.some(({ verdict }) => verdict === "due") ? "" : ", if it were due";
  return [`• Request${condition}, with this row alone:`, ...indent(renderRequest(request).split("\n"))];
}

function resultLines({ result }: ExplainedJob): readonly string[] {
  if (result === null) return [];
  const {
    is_match: isMatch,
    service_pid: pid,
    match_score: score,
    request_completed_at: at,
    is_present: isPresent,
  } = result;
  const match =
    isMatch === true
      ? `match ${pid ?? "without a PID"}${score === null ? "" : `, score ${score}`}`
      : "no match";
  const stale = isPresent || isMatch !== true ? "" : "; to an earlier version of the row";
  return [`• Last answer: ${match}${at === null ? "" : `, ${timeText(at)}`}${stale}`];
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : [title, ...indent(lines.map((line) => `• ${line}`))].join("\n");
}

function indent(lines: readonly string[]): readonly string[] {
  return lines.map((line) => `  ${line}`);
}

function sentence(text: string): string {
  return text.endsWith(".") ? text : `${text}.`;
}
