import { renderRequest } from "./plan.ts";
import { openConfig, openFilledWarehouse } from "../app.ts";
import { type Context, dataResult, findInput, type Outcome, parseSourceKey } from "../command.ts";
import { paragraphs, type Text } from "../output.ts";
import { countText, timeText } from "../../figures.ts";
import {
  type ExplainedJob,
  type ExplainedRow,
  explainRow,
  type RowExplanation,
} from "../../jobs/report/explain-row.ts";

export async function explain(
  context: Context,
  _flags: object,
  text: string,
): Promise<Outcome<RowExplanation>> {
  const config = await openConfig(context);
  const { inputs } = config;
  const { source, key, sourceKey } = parseSourceKey(text, inputs, "explain");
  const input = findInput(config, source);
  const db = await openFilledWarehouse(context, config);
  const report = await explainRow({ config, db }, input, { key, sourceKey });
  return dataResult(report, renderExplanation(report, context.localize), report.is_known ? 0 : 1);
}

/** Formats what is known of an input row: first where it is, then each job, then what belongs to the row. */
function renderExplanation(report: RowExplanation, localize: Context["localize"]): Text {
  const { jobs, emails, rejects, calls } = report;
  return paragraphs(
    headline(report),
    ...jobs.map((job) => renderJob(report, job, localize)),
    section(
      "E-mail addresses",
      emails.map(({ email_address: address, email_validation_status: status, request_completed_at: at }) =>
        at === null && status === null
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
          `${timeText(call.started_at)} ${call.job}: ${call.endpoint}, ${call.http_status ?? "no response"}, ` +
          `${countText(call.records_sent, "record")}, run ${call.run_id}, request ${call.api_request_id ?? "without an ID"}`,
      ),
    ),
  );
}

function headline(report: RowExplanation): string {
  const name = `${report.source}/${report.source_key}`;
  if (!report.is_known) return `✗ ${name} is not in the input, and no table has it.`;
  if (report.is_erased) return `• ${name} was erased; nothing about it is stored or sent.`;
  if (report.is_left_out_by_where)
    return `• ${name} is in the table, but \`where:\` of the input excludes it.`;
  if (report.is_in_input) return `✓ ${name} is in the input.`;
  const since = report.missing_since === null ? "" : `; missing since ${timeText(report.missing_since)}`;
  return `• ${name} is no longer in the input${since}.`;
}

const VERDICTS: Readonly<Record<ExplainedRow["verdict"], readonly [mark: string, words: string]>> = {
  due: ["•", "Due"],
  unchanged: ["✓", "Not due"],
  duplicate: ["✓", "Duplicate"],
  waiting: ["•", "Waiting"],
  rejected: ["!", "Rejected"],
  suppressed: ["!", "Suppressed"],
};

function renderJob(
  { is_in_input: isInInput }: RowExplanation,
  job: ExplainedJob,
  localize: Context["localize"],
): string {
  const title = `${job.job} (${job.type}${job.is_enabled ? "" : ", disabled"})`;
  const { rows, delay, result: answer, request } = job;
  const lines = [
    ...(isInInput && rows.length === 0 ? ["• No address to validate."] : []),
    ...rows.flatMap((row) => rowLines(row, localize)),
    ...(delay === null ? [] : [`→ ${delay}`]),
    ...(answer === null ? [] : [answerLine(answer)]),
  ];
  if (request !== null) {
    const condition = rows.some(({ verdict }) => verdict === "due") ? "" : ", if it were due";
    lines.push(`• Request for this row alone${condition}:`, ...indent(renderRequest(request).split("\n")));
  }
  return lines.length === 0 ? "" : [title, ...indent(lines)].join("\n");
}

function rowLines(
  { verdict, reason, explanation, advice, address }: ExplainedRow,
  localize: Context["localize"],
): readonly string[] {
  const code = verdict === "rejected" && reason !== null ? ` (${reason})` : "";
  const subject = address === undefined ? "" : `${address}: `;
  const [mark, words] = VERDICTS[verdict];
  const sentence = explanation.endsWith(".") ? explanation : `${explanation}.`;
  return [
    `${mark} ${subject}${words}${code}: ${sentence}`,
    ...(advice === null ? [] : [`  → ${localize(advice)}`]),
  ];
}

function answerLine(answer: NonNullable<ExplainedJob["result"]>): string {
  const { is_match: isMatch, match_score: score, request_completed_at: at } = answer;
  const match = `match ${answer.service_pid ?? "without a PID"}${score === null ? "" : `, score ${score}`}`;
  const stale = answer.is_present || !isMatch ? "" : "; for an earlier version of the row";
  return `• Last response: ${isMatch ? match : "no match"}${at === null ? "" : `, ${timeText(at)}`}${stale}`;
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : [title, ...indent(lines.map((line) => `• ${line}`))].join("\n");
}

function indent(lines: readonly string[]): readonly string[] {
  return lines.map((line) => `  ${line}`);
}
