import type { Command } from "commander";
import {
  type AddCommand,
  type Context,
  keyValues,
  type Outcome,
  parseSourceKey,
  result,
} from "../command.ts";
import { renderRequest } from "./plan.ts";
import { UsageError } from "../failure.ts";
import { openConfig, openFilledWarehouse } from "../app.ts";
import type { Config, InputConfig } from "../../config/config.ts";
import { suggest } from "../../config/problems.ts";
import { countText, timeText } from "../../figures.ts";
import {
  type ExplainedJob,
  type ExplainedRow,
  explainRow,
  type RowExplanation,
} from "../../jobs/report/explain-row.ts";

/** `explain`: shows why one input row is due or isn't. */
export const addExplain: AddCommand = (program, act) => {
  program
    .command("explain")
    .description(
      "show why an input row is due or isn't, the request it makes, its results, rejects and calls; prints personal data",
    )
    .argument("<source/key>", "input name and key, such as customers/4711")
    .action((row: string, _flags: object, command: Command) =>
      act(command, (context) => explain(context, row)),
    );
};

async function explain(context: Context, text: string): Promise<Outcome> {
  const config = await openConfig(context);
  const row = parseSourceKey(text, config.inputs, "explain");
  const input = inputNamed(config, row.source);
  const db = await openFilledWarehouse(context, config);
  const given = { key: keyValues(row, input.key), sourceKey: row.sourceKey };
  const report = await explainRow({ config, db }, input, given);
  return result(report, renderExplanation(report), report.is_known ? 0 : 1);
}

function inputNamed({ inputs }: Config, name: string): InputConfig {
  const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
  if (input) return input;
  const known = Object.keys(inputs);
  const similar = suggest(name, known);
  const hint =
    similar === null ? `Inputs of this configuration: ${known.join(", ")}.` : `Did you mean ${similar}?`;
  throw new UsageError(`There is no input ${name}. ${hint}`);
}

/** Formats what is known of an input row: first where it is, then each job, then what belongs to the row. */
function renderExplanation(report: RowExplanation): string {
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

const VERDICTS: Readonly<Record<ExplainedRow["verdict"], string>> = {
  due: "• Due",
  unchanged: "✓ Not due",
  duplicate: "✓ Duplicate",
  waiting: "• Waiting",
  rejected: "! Rejected",
  suppressed: "! Suppressed",
};

function rowLines({ verdict, reason, explanation, advice, address }: ExplainedRow): readonly string[] {
  const code = verdict === "rejected" && reason !== null ? ` (${reason})` : "";
  const about = address === undefined ? "" : `${address}: `;
  const [mark, ...words] = VERDICTS[verdict].split(" ");
  return [
    `${mark} ${about}${words.join(" ")}${code}: ${sentence(explanation)}`,
    ...(advice === null ? [] : [`  → ${advice}`]),
  ];
}

function requestLines({ request, rows }: ExplainedJob): readonly string[] {
  if (request === null) return [];
  const condition = rows.some(({ verdict }) => verdict === "due") ? "" : ", if it were due";
  return [`• Request${condition}, with this row alone:`, ...indent(renderRequest(request).split("\n"))];
}

function resultLines({ result: answer }: ExplainedJob): readonly string[] {
  if (answer === null) return [];
  const { is_match: isMatch, match_score: score, request_completed_at: at } = answer;
  const match = isMatch
    ? `match ${answer.service_pid ?? "without a PID"}${score === null ? "" : `, score ${score}`}`
    : "no match";
  const stale = answer.is_present || !isMatch ? "" : "; to an earlier version of the row";
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
