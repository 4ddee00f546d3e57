import type { JobReport, RunReport } from "../../src/jobs/job.ts";
import { unaccounted } from "../nights/night.ts";
import { kindOfJob, type ModelJob, names, type Views } from "./reference.ts";
import type { Call } from "./service.ts";
import type { History } from "./setting.ts";
import type { EndedRun } from "./world.ts";

/** Published row. */
interface Shown {
  readonly job: string;
  readonly source: string;
  readonly source_key: string;
  readonly api_request_id: string | null;
  readonly is_match: boolean;
  readonly service_pid: string | null;
  readonly is_present: boolean;
}

/** Reports a broken law. */
export function fail(law: string, facts: object = {}): never {
  throw new Error(
    `${law} ${JSON.stringify(facts, (_, value: unknown) => (value instanceof Set ? [...value] : value))}`,
  );
}

/** Calls of a run and job; a shard is a run of its own. */
export function callsOf(h: History, { tag }: EndedRun, job?: ModelJob): readonly Call[] {
  return h.world.service.calls.filter(
    (call) => call.run === tag && (job === undefined || call.job === job.name),
  );
}

/** Contents of calls. */
export function distinct(calls: readonly Call[]): ReadonlySet<string> {
  return new Set(calls.flatMap(({ contents }) => contents));
}

/** A report agrees with the calls; nobody pays twice, exceeds a cap or sends an erased person. */
export function checkReport(
  h: History,
  run: EndedRun,
  report: JobReport,
  job: ModelJob,
  most: number | null,
): void {
  const calls = callsOf(h, run, job);
  const sent = distinct(calls);
  const paid = calls.flatMap(({ requestId, contents }) => (requestId === null ? [] : contents));
  if (new Set(paid).size < paid.length) fail("a content is paid once in a run", { job: job.name, paid });
  if (report.records_sent !== sent.size)
    fail("records_sent is what the service received", {
      job: job.name,
      reported: report.records_sent,
      received: sent,
    });
  if (most !== null && sent.size > most) fail("a cap holds", { job: job.name, most, sent });
  for (const content of sent)
    if (names(h.reference.erased, content)) fail("nobody who was erased is sent", { job: job.name, content });
}

/** Every row read is accounted for in the printed report. */
export function checkCounters(report: RunReport): void {
  const gaps = unaccounted(report);
  if (gaps.length > 0) fail("every row is accounted for", { gaps, report });
}

/** Under a cap, contents of rows that come first in `order_by` are sent. */
export function checkOrder(
  job: ModelJob,
  views: Views,
  due: ReadonlySet<string>,
  sent: ReadonlySet<string>,
): void {
  const rank = new Map<string, number>();
  for (const [key, { contents }] of views)
    for (const content of contents)
      rank.set(content, Math.min(Number(key), rank.get(content) ?? Number.POSITIVE_INFINITY));
  const ranks = (list: readonly string[]) => list.map((content) => rank.get(content) ?? 0);
  const last = Math.max(...ranks([...sent]));
  const first = Math.min(...ranks([...due].filter((content) => !sent.has(content))));
  if (job.type !== "validate_emails" && last > first)
    fail("the first rows are sent first", { job: job.name, last, first });
}

/** The budget of the day holds, whatever died. */
export function checkBudget(h: History): void {
  if (h.shape.perDay === null || h.today.date !== new Date().toISOString().slice(0, 10)) return;
  const paid = h.world.service.calls
    .slice(h.today.from)
    .filter(({ kind, requestId }) => kind.startsWith("enrich") && requestId !== null)
    .reduce((sum, { contents }) => sum + contents.length, 0);
  if (paid > h.shape.perDay) fail("a budget is never exceeded", { paid });
}

/** Published rows show the newest answers of their contents. */
export async function checkRows(
  h: History,
  job: ModelJob,
  all: readonly Views[],
  isComplete: boolean,
): Promise<void> {
  const kind = kindOfJob(job);
  if (job.type === "validate_emails") {
    const rows = await h.world.rows<{ email_address: string; api_request_id: string }>(
      "SELECT email_address, api_request_id FROM email_validation",
    );
    for (const { email_address: address, api_request_id: id } of rows)
      if (h.reference.known(kind, address)?.requestId !== id)
        fail("an address shows its newest answer", { address, id, known: h.reference.known(kind, address) });
    const shown = new Set(rows.map((row) => row.email_address));
    for (const [address, { state }] of all.at(-1) ?? [])
      if (isComplete && state === "usable" && !shown.has(address))
        fail("every address is validated", { address });
    return;
  }
  const table = job.type === "resolve" ? "resolution" : "enrichment";
  const rows =
    await h.world.rows<Shown>(`SELECT job, source, source_key, api_request_id, is_match, service_pid, is_present
    FROM ${table} WHERE job = '${job.name}' AND source = '${job.input.name}'`);
  const former = h.reference.stateOf(job)?.formerKind ?? "";
  const byKey = new Map(rows.map((row) => [row.source_key, row]));
  for (const row of rows) {
    if (!row.is_present) continue;
    const views = all.flatMap((one) => one.get(row.source_key) ?? []);
    const answers = views.flatMap(({ contents }) =>
      // Under changed parameters, a row shows the former answer until it has the new one.
      [...contents].map((content) => h.reference.known(kind, content) ?? h.reference.known(former, content)),
    );
    const isRight = answers.some(
      (known) => known?.requestId === row.api_request_id && known.isMatch && known.pid === row.service_pid,
    );
    if (!isRight) fail("a present row shows the newest answer of its content", { row, views, answers });
  }
  const [views] = all;
  if (!isComplete || !views || all.length > 1) return;
  for (const [key, view] of views) {
    const row = byKey.get(key);
    if (view.state !== "usable") continue;
    const answers = [...view.contents].map((content) => h.reference.known(kind, content));
    const isRight = answers.some(
      (known) =>
        known &&
        (known.isRejected
          ? row?.is_present !== true
          : row?.api_request_id === known.requestId &&
            row.is_match === known.isMatch &&
            row.service_pid === known.pid &&
            row.is_present === known.isMatch),
    );
    if (!isRight && !view.isDoubtful)
      fail("a row shows the newest answer of its content", { job: job.name, key, row, view, answers });
  }
}

/** Rows of jobs and inputs that are gone are not present. */
export async function checkRetired(h: History): Promise<void> {
  const rows = await h.world.rows<Pick<Shown, "job" | "source">>(
    "SELECT DISTINCT job, source FROM resolution WHERE is_present UNION SELECT DISTINCT job, source FROM enrichment WHERE is_present",
  );
  for (const { job, source } of rows)
    if (!h.jobs.some((one) => one.name === job && one.input.name === source))
      fail("rows of a job that is gone are not present", { job, source });
}

/** Nobody who was erased is in a table. */
export async function checkErased(h: History): Promise<void> {
  if (h.reference.erased.size === 0) return;
  const list = [
    "resolution",
    "enrichment",
    "match_history",
    "person",
    "person_email",
    "email_validation",
    "input_email",
    "reject",
  ];
  const [found] = await h.world.rows<{ texts: string | null }>(
    `SELECT string_agg(t, ' ') AS texts FROM (${list.map((table) => `SELECT t::text AS t FROM ${table} AS t`).join(" UNION ALL ")}) AS u`,
  );
  const text = found?.texts ?? "";
  if (names(h.reference.erased, text))
    fail("nobody who was erased is in a table", { text: /.{40}solo\d+.{10}/iu.exec(text)?.[0] ?? "" });
}
