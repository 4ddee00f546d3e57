import type { CrashPoint } from "../../src/crash-point.ts";
import type { JobReport } from "../../src/jobs/run.ts";
import type { RunRequest } from "../../src/jobs/services.ts";
import { unaccounted } from "../nights/night.ts";
import { type Random, seededRandom } from "../support/seeded-random.ts";
import type { Death } from "./life.ts";
import {
  createReference,
  type InputRow,
  kindOfJob,
  type ModelInput,
  type ModelJob,
  names,
  type Reference,
  type Views,
} from "./reference.ts";
import { type Call, isPoison } from "./service.ts";
import { type EndedRun, type ModelWorld, openModelWorld } from "./world.ts";

/** Totals of histories. */
export interface Totals {
  seeds: number;
  nights: number;
  runs: number;
  sent: number;
  kills: number;
  checks: number;
}

/** What stays the same in a history. */
interface Shape {
  readonly isKeyUnique: boolean;
  readonly resolves: boolean;
  readonly validates: boolean;
  readonly refreshes: boolean;
  readonly hasOrder: boolean;
  readonly perDay: number | null;
}

const POINTS: readonly CrashPoint[] = [
  "before_reserve",
  "after_reserve",
  "before_send",
  "after_send",
  "after_receive",
  "before_spool_write",
  "after_spool_write",
  "after_spool_fsync",
  "before_commit",
  "before_commit",
  "after_commit",
  "after_spool_removal",
  "before_end",
  "after_end",
];

const FIRST_NAMES = ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Nobody", "Poison"];
const CITIES = ["Rome", "Oslo", null, null];

/** Days of a pause: with ages of 10 and 20 days, no answer's age is within the spread of its expiry. */
const PAUSE = 12;
const AGES = { matched: 10, unmatched: 20 };

/** Spends a history; throws at the first law that doesn't hold. */
export async function spendHistory(seed: number, nights: number, totals: Totals): Promise<void> {
  const random = seededRandom(seed);
  const shape: Shape = {
    isKeyUnique: random.chance(0.6),
    resolves: random.chance(0.5),
    validates: random.chance(0.35),
    refreshes: random.chance(0.6),
    hasOrder: random.chance(0.3),
    perDay: random.chance(0.2) ? 20 + random.below(20) : null,
  };
  const world = await openModelWorld(shape.isKeyUnique);
  const log: string[] = [`shape ${JSON.stringify(shape)}`];
  try {
    const history = createHistory(world, random, shape, totals, (event) => {
      log.push(event);
      if (process.env["PERSON_ETL_MODEL_LOG"] === "live") process.stderr.write(`${event}\n`);
    });
    for (let night = 1; night <= nights; night += 1) {
      log.push(`night ${night}`);
      await history.spendNight();
      totals.nights += 1;
    }
  } catch (error) {
    const last = log.slice(-40).join("\n  ");
    throw new Error(
      `seed ${seed}: ${error instanceof Error ? error.message : String(error)}\n  ${log[0]}\n  ${last}`,
      {
        cause: error,
      },
    );
  } finally {
    await world.close();
  }
  totals.seeds += 1;
}

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

function fail(law: string, facts: object = {}): never {
  throw new Error(
    `${law} ${JSON.stringify(facts, (_, value: unknown) => (value instanceof Set ? [...value] : value))}`,
  );
}

function createHistory(
  world: ModelWorld,
  random: Random,
  shape: Shape,
  totals: Totals,
  log: (event: string) => void,
) {
  const tables: Record<ModelInput["table"], InputRow[]> = { customers: [], leads: [] };
  let inputs: ModelInput[] = [];
  let jobs: ModelJob[] = [];
  const naming = {
    customers: "customers",
    resolve: "resolve",
    enrich: "enrich",
    hasCity: true,
    returnFields: [] as string[],
  };
  const reference: Reference = createReference(
    shape.refreshes ? AGES : { matched: null, unmatched: null },
    () => jobs,
  );
  /** Requests whose answers are loaded. */
  const loaded = new Set<string>();
  /** Days of the calls. */
  const days = new Map<number, number>();
  /** First call of the day, and its date. */
  let today = { from: 0, date: "" };
  /** Contents by kind that a resend left due. */
  const open = new Map<string, Set<string>>();
  let renames = 0;
  let solos = 0;
  const rowsOf = (job: ModelJob) => tables[job.input.table];

  async function configure(): Promise<void> {
    const customers: ModelInput = { name: naming.customers, table: "customers", hasCity: naming.hasCity };
    const leads: ModelInput = { name: "leads", table: "leads", hasCity: true };
    inputs = [customers, leads];
    const pidFrom = shape.resolves ? naming.resolve : null;
    const validFrom = shape.validates ? "validate" : null;
    const none = { pidFrom: null, validFrom: null, returnFields: [] };
    jobs = [
      ...(shape.validates
        ? [{ ...none, name: "validate", type: "validate_emails" as const, input: customers }]
        : []),
      ...(shape.resolves
        ? [{ ...none, name: naming.resolve, type: "resolve" as const, input: customers }]
        : []),
      {
        name: naming.enrich,
        type: "enrich",
        input: customers,
        pidFrom,
        validFrom,
        returnFields: naming.returnFields,
      },
      { ...none, name: "enrich_leads", type: "enrich", input: leads, returnFields: naming.returnFields },
    ];
    const age = shape.refreshes
      ? `, refresh_after: ${AGES.matched}d, refresh_unmatched_after: ${AGES.unmatched}d`
      : "";
    const inputLines = inputs.map(
      ({
        name,
        table,
        hasCity,
      }) => `${name}: { table: crm.${table}, key: id${shape.hasOrder ? ", order_by: id" : ""},
    fields: { full_name: name, emails: [email, work_email]${hasCity ? ", city: city" : ""} } }`,
    );
    const jobLines = jobs.map((job) => {
      const more = [
        ...(job.pidFrom === null ? [] : [`pid_from: ${job.pidFrom}`]),
        ...(job.validFrom === null ? [] : [`valid_emails_from: ${job.validFrom}`]),
        ...(job.returnFields.length === 0 ? [] : [`return_fields: [${job.returnFields.join(", ")}]`]),
      ];
      // The service's own refreshing of addresses is that of the other jobs.
      const refresh =
        job.type === "validate_emails" && shape.refreshes ? `, refresh_after: ${AGES.matched}d` : age;
      return `${job.name}: { type: ${job.type}, input: ${job.input.name}${refresh}${more.map((one) => `, ${one}`).join("")} }`;
    });
    await world.configure(`
service: { base_url: "\${SERVICE_URL}", api_key: "\${SERVICE_KEY}", concurrency: 2 }
warehouse: { url: "\${WAREHOUSE_URL}" }
data_dir: answers
${shape.perDay === null ? "" : `budgets: { enrich: { per_day: ${shape.perDay} } }`}
inputs:
  ${inputLines.join("\n  ")}
jobs:
  ${jobLines.join("\n  ")}
`);
  }

  function newRow(id: number | null): InputRow {
    const some = (share: number) => (random.chance(share) ? `e${random.below(6)}@x` : null);
    const name = random.chance(0.95) ? random.pick(FIRST_NAMES) : null;
    return { id, name, email: some(0.6), work_email: some(0.2), city: random.pick(CITIES) };
  }

  /** Edits an input table: few distinct people, so that many rows are equal and changes are undone. */
  function edit(table: ModelInput["table"]): void {
    const rows = tables[table];
    for (let edits = random.below(7); edits > 0; edits -= 1) {
      const kind = random.next();
      const at = random.below(rows.length);
      const id = 1 + random.below(16);
      if (kind < 0.25) rows.splice(at, 1);
      else if (kind < 0.35 && !shape.isKeyUnique) rows.push(newRow(random.chance(0.2) ? null : id));
      else if (kind < 0.42 && table === "customers") {
        solos += 1;
        rows.push({
          id: 100 + solos,
          name: `Solo${solos}`,
          email: `solo${solos}@x`,
          work_email: null,
          city: random.pick(CITIES),
        });
      } else if (kind < 0.5 && rows[at]) rows[at] = { ...rows[at], city: random.pick(CITIES) };
      else {
        const same = rows.findIndex((row) => row.id === id);
        rows.splice(same < 0 ? rows.length : same, same < 0 ? 0 : 1, newRow(id));
      }
    }
  }

  async function write(): Promise<void> {
    for (const [table, rows] of Object.entries(tables)) {
      await world.sql(`DELETE FROM crm.${table};
        INSERT INTO crm.${table} SELECT * FROM json_populate_recordset(NULL::crm.${table}, '${JSON.stringify(rows)}')`);
    }
  }

  /** Calls of a run and job; a shard is a run of its own. */
  const callsOf = ({ runId }: EndedRun, job?: ModelJob): readonly Call[] =>
    world.service.calls.filter((call) => call.run === runId && (job === undefined || call.job === job.name));

  const distinct = (calls: readonly Call[]) => new Set(calls.flatMap(({ contents }) => contents));

  /** Takes over the answers that a run loaded. */
  async function learn(): Promise<readonly Call[]> {
    const rows = await world.rows<{ id: string }>(
      "SELECT api_request_id AS id FROM api_call WHERE api_request_id LIKE 'req-%'",
    );
    const fresh = new Set(rows.map(({ id }) => id).filter((id) => !loaded.has(id)));
    for (const id of fresh) loaded.add(id);
    return world.service.calls.filter(({ requestId }) => requestId !== null && fresh.has(requestId));
  }

  const apply = (calls: readonly Call[]) => {
    for (const call of calls) reference.apply(call, days.get(call.serial) ?? reference.day);
  };

  function doubt(calls: readonly Call[]): void {
    for (const { kind, contents } of calls) {
      const list = reference.uncertain.get(kind) ?? new Set();
      reference.uncertain.set(kind, list);
      for (const content of contents) if (isPoison(content)) list.add(content);
    }
  }

  /** Law 3, and that nothing is paid twice in one job of a run. */
  function checkReport(run: EndedRun, report: JobReport, job: ModelJob, most: number | null): void {
    const calls = callsOf(run, job);
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
      if (names(reference.erased, content)) fail("nobody who was erased is sent", { job: job.name, content });
  }

  function checkBudget(): void {
    if (shape.perDay === null || today.date !== new Date().toISOString().slice(0, 10)) return;
    const paid = world.service.calls
      .slice(today.from)
      .filter(({ kind, requestId }) => kind.startsWith("enrich") && requestId !== null)
      .reduce((sum, { contents }) => sum + contents.length, 0);
    if (paid > shape.perDay) fail("a budget is never exceeded", { paid });
  }

  /** Law 2 and 4 for the rows of a job. */
  async function checkRows(job: ModelJob, all: readonly Views[], isComplete: boolean): Promise<void> {
    const kind = kindOfJob(job);
    if (job.type === "validate_emails") {
      const rows = await world.rows<{ email_address: string; api_request_id: string }>(
        "SELECT email_address, api_request_id FROM email_validation",
      );
      for (const { email_address: address, api_request_id: id } of rows)
        if (reference.known(kind, address)?.requestId !== id)
          fail("an address shows its newest answer", { address, id, known: reference.known(kind, address) });
      const shown = new Set(rows.map((row) => row.email_address));
      for (const [address, { state }] of all.at(-1) ?? [])
        if (isComplete && state === "usable" && !shown.has(address))
          fail("every address is validated", { address });
      return;
    }
    const table = job.type === "resolve" ? "resolution" : "enrichment";
    const rows =
      await world.rows<Shown>(`SELECT job, source, source_key, api_request_id, is_match, service_pid, is_present
      FROM ${table} WHERE job = '${job.name}' AND source = '${job.input.name}'`);
    const byKey = new Map(rows.map((row) => [row.source_key, row]));
    for (const row of rows) {
      if (!row.is_present) continue;
      const views = all.flatMap((one) => one.get(row.source_key) ?? []);
      const answers = views.flatMap(({ contents }) =>
        [...contents].map((content) => reference.known(kind, content)),
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
      const answers = [...view.contents].map((content) => reference.known(kind, content));
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
      const isDoubtful = !view.isSure && [...view.contents].some(isPoison);
      if (!isRight && !isDoubtful)
        fail("a row shows the newest answer of its content", { job: job.name, key, row, view, answers });
    }
  }

  /** Rows of jobs and inputs that are no longer configured. */
  async function checkRetired(): Promise<void> {
    const rows = await world.rows<Pick<Shown, "job" | "source">>(
      "SELECT DISTINCT job, source FROM resolution WHERE is_present UNION SELECT DISTINCT job, source FROM enrichment WHERE is_present",
    );
    for (const { job, source } of rows)
      if (!jobs.some((one) => one.name === job && one.input.name === source))
        fail("rows of a job that is gone are not present", { job, source });
  }

  async function checkErased(): Promise<void> {
    if (reference.erased.size === 0) return;
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
    const [found] = await world.rows<{ texts: string | null }>(
      `SELECT string_agg(t, ' ') AS texts FROM (${list.map((table) => `SELECT t::text AS t FROM ${table} AS t`).join(" UNION ALL ")}) AS u`,
    );
    const text = found?.texts ?? "";
    if (names(reference.erased, text))
      fail("nobody who was erased is in a table", { text: /.{40}solo\d+.{10}/iu.exec(text)?.[0] ?? "" });
  }

  /** Spends a run of the whole chain and compares each job with the reference. */
  async function spendRun(flags: Partial<RunRequest>, death: Death | undefined): Promise<void> {
    const before = world.service.calls.length;
    log(`run ${JSON.stringify({ ...flags, ...death })}`);
    const run = await world.run({ flags, ...(death ? { death } : {}) });
    totals.runs += 1;
    for (const call of world.service.calls.slice(before)) days.set(call.serial, reference.day);
    const learned = await learn();
    const leftovers = learned.filter((call) => call.run !== run.runId);
    log(
      `  ${run.runId}: ${run.report ? run.report.jobs.map((job) => `${job.job} ${job.status}`).join(", ") : "died"}; sent ${[...distinct(callsOf(run))].join(" ")}`,
    );
    if (leftovers.length > 0) log(`  loaded ${leftovers.map(({ requestId }) => requestId).join(" ")}`);
    const late = new Set(
      leftovers.flatMap(({ kind, contents }) => contents.map((content) => `${kind} ${content}`)),
    );
    apply(leftovers);
    totals.sent += distinct(callsOf(run)).size;
    if (run.report === null) {
      totals.kills += 1;
      await world.sql(`UPDATE person_data_state.job_lock SET heartbeat_at = heartbeat_at - interval '1 hour',
        expires_at = expires_at - interval '1 hour' WHERE released_at IS NULL`);
    }
    for (const [i, job] of jobs.entries()) {
      const later = new Set(jobs.slice(i).map(({ name }) => name));
      const own = callsOf(run, job);
      const views = reference.view(job, rowsOf(job));
      const report = run.report?.jobs.find((one) => one.job === job.name);
      const decided = flags.acceptParameters ?? null;
      const changed = reference.changed(job, views);
      const isKept = decided === "keep" && changed.length > 0;
      if (isKept) reference.keep(job, changed);
      const isStopped = decided === null && reference.changed(job, views).length > 0;
      if (isStopped) {
        if (own.length > 0) fail("changed parameters buy nothing", { job: job.name, sent: distinct(own) });
        if (report && report.limited_by !== "parameters_changed")
          fail("changed parameters are reported", { report });
        continue;
      }
      if (report || own.length > 0) reference.accept(job);
      const state = reference.stateOf(job);
      const kind = kindOfJob(job);
      if (flags.resend === true && state && state.read.size > 0) {
        const isUnderWay = [...(open.get(kind) ?? [])].some(
          (content) =>
            (reference.known(kind, content)?.serial ?? Number.POSITIVE_INFINITY) < state.resendFrom,
        );
        const earlier = world.service.calls.filter(
          (call) => !(call.run === run.runId && later.has(call.job)),
        );
        if (!isUnderWay) state.resendFrom = 1 + (earlier.at(-1)?.serial ?? 0);
      }
      const due = reference.due(job, views);
      const sent = distinct(own);
      for (const content of sent)
        if (!due.may.has(content) && !late.has(`${kind} ${content}`))
          fail("only what is due is sent", {
            job: job.name,
            content,
            due,
            known: reference.known(kind, content),
            state,
          });
      const isBudgeted = shape.perDay !== null && job.type === "enrich";
      const most = flags.maxRecords ?? null;
      const isComplete = report?.status === "succeeded" && report.records_remaining === 0;
      if (isComplete)
        for (const content of due.must)
          if (!sent.has(content)) fail("everything due is sent", { job: job.name, content, due, sent });
      if (report && !isBudgeted) {
        if (most !== null && due.must.size === due.may.size && sent.size !== Math.min(most, due.must.size))
          fail("a run sends as much as its cap allows", { job: job.name, due, sent, most });
        if (most === null && !isComplete)
          fail("a run without limits is complete", { job: job.name, report, warnings: run.warnings });
      }
      if (report) checkReport(run, report, job, most);
      apply(learned.filter((call) => call.run === run.runId && call.job === job.name));
      if (isComplete)
        for (const { serial, contents } of own) {
          for (const content of contents) if (isPoison(content)) reference.reject(kind, content, serial);
        }
      else doubt(own);
      if (isComplete) for (const content of due.may) reference.uncertain.get(kind)?.delete(content);
      open.set(
        kind,
        new Set([...(open.get(kind) ?? []), ...due.may].filter((content) => !sent.has(content))),
      );
      if (report) await checkRows(job, [views], isComplete);
      if (report) reference.settle(job, rowsOf(job), views);
      totals.checks += 1;
    }
    if (run.report) {
      const gaps = unaccounted(run.report);
      if (gaps.length > 0) fail("every row is accounted for", { gaps, report: run.report });
      await checkRetired();
    }
    checkBudget();
    await checkErased();
  }

  /** Pauses, edits and changes before a night's runs. */
  async function prepare(): Promise<void> {
    const date = new Date().toISOString().slice(0, 10);
    if (random.chance(0.25)) {
      await world.passDays(PAUSE);
      reference.day += PAUSE;
      today = { from: world.service.calls.length, date };
      log(`${PAUSE} days pass`);
    }
    if (today.date === "") today = { from: 0, date };
    edit("customers");
    edit("leads");
    await write();
    if (random.chance(0.08)) naming.enrich = `enrich_${(renames += 1)}`;
    if (random.chance(0.06)) naming.resolve = `resolve_${(renames += 1)}`;
    if (random.chance(0.04)) naming.customers = `customers_${(renames += 1)}`;
    await configure();
    if (random.chance(0.2)) {
      await world.bringSpoolsBack();
      log("spools come back");
    }
    log(`${naming.customers} ${naming.resolve} ${naming.enrich}: ${JSON.stringify(tables)}`);
  }

  return {
    async spendNight(): Promise<void> {
      await prepare();
      const kind = random.next();
      const flags = {
        ...(random.chance(0.12) ? { resend: true } : {}),
        ...(kind < 0.25 ? { maxRecords: random.below(8) } : {}),
      };
      const death = kind > 0.75 ? { point: random.pick(POINTS), count: 1 + random.below(5) } : undefined;
      await spendRun(flags, death);
      if (random.chance(0.3) && (await world.putSpoolAside())) log("the spool is put aside");
      if (kind > 0.4 && kind < 0.55) await spendRun({}, undefined);
    },
  };
}
