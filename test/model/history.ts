import type { CrashPoint } from "../../src/crash-point.ts";
import type { RunRequest } from "../../src/jobs/services.ts";
import { seededRandom } from "../support/seeded-random.ts";
import {
  callsOf,
  checkBudget,
  checkCounters,
  checkErased,
  checkOrder,
  checkReport,
  checkRetired,
  checkRows,
  distinct,
  fail,
} from "./laws.ts";
import type { Death } from "./life.ts";
import { checkMissing, countAbsences, forgetErased, learnTombstones } from "./missing.ts";
import { kindOfJob } from "./reference.ts";
import { type Call, isPoison } from "./service.ts";
import {
  configure,
  edit,
  type History,
  isSolo,
  openHistory,
  PAUSE,
  rowsOf,
  type Totals,
  write,
} from "./setting.ts";
import type { RunOptions } from "./world.ts";
import { STEPS } from "../crash/kill-support.ts";

/** Steps of a lookup, those at which most is at stake twice. */
const POINTS = STEPS.filter((step) => !step.endsWith("_copy")).flatMap((step) =>
  step === "after_spool_fsync" || step === "before_commit" ? [step, step] : [step],
);

/** Steps that loading the answers of dead runs passes, too. */
const LOADING: readonly CrashPoint[] = ["before_commit", "after_commit", "after_spool_removal"];

/** Spends a history; throws at the first law that doesn't hold. */
export async function spendHistory(seed: number, nights: number, totals: Totals): Promise<void> {
  const random = seededRandom(seed);
  const events: string[] = [];
  const h = await openHistory(random, totals, (event) => void events.push(event));
  try {
    for (let night = 1; night <= nights; night += 1) {
      h.log(`night ${night}`);
      await spendNight(h);
      totals.nights += 1;
    }
  } catch (error) {
    const law = error instanceof Error ? error.message : String(error);
    const last = [JSON.stringify(h.shape), ...events.slice(-40)].join("\n  ");
    throw new Error(`seed ${seed}: ${law}\n  ${last}`, { cause: error });
  } finally {
    await h.world.close();
  }
  totals.seeds += 1;
}

/** Spends a night: changes, then runs. */
async function spendNight(h: History): Promise<void> {
  await prepare(h);
  if (h.random.chance(0.12)) await erase(h);
  if (h.random.chance(0.1)) return await changeParameters(h);
  // A former name is known by the definition.
  if (h.random.chance(0.05) && h.naming.customers === "customers") return await redefineInputs(h);
  if (h.random.chance(0.3)) {
    await spendAtOnce(h);
    return await spendRun(h, {}, undefined);
  }
  const kind = h.random.next();
  const flags = {
    ...(h.random.chance(0.12) ? { resend: true } : {}),
    ...(kind < 0.25 ? { maxRecords: h.random.below(8) } : {}),
  };
  const death = kind > 0.6 ? { point: h.random.pick(POINTS), count: 1 + h.random.below(5) } : undefined;
  await spendRun(h, flags, death);
  // Answers that come back after newer ones are rare otherwise.
  if (h.random.chance(death ? 0.7 : 0.3) && (await h.world.putSpoolAside())) h.log("the spool is put aside");
  if (kind > 0.35 && kind < 0.5) await spendRun(h, {}, undefined);
}

async function prepare(h: History): Promise<void> {
  const date = new Date().toISOString().slice(0, 10);
  if (h.random.chance(0.25)) {
    await h.world.passDays(PAUSE);
    h.reference.day += PAUSE;
    h.today = { from: h.world.service.calls.length, date };
    h.log(`${PAUSE} h.days pass`);
  }
  if (h.today.date === "") h.today = { from: 0, date };
  edit(h, "customers");
  edit(h, "leads");
  await write(h);
  if (h.random.chance(0.08)) h.naming.enrich = `enrich_${(h.renames += 1)}`;
  if (h.random.chance(0.06)) h.naming.resolve = `resolve_${(h.renames += 1)}`;
  if (h.random.chance(0.04) && h.naming.where === "true") {
    h.naming.customers = `customers_${(h.renames += 1)}`;
    // Erased rows are known by the input's name.
    h.gone = [];
  }
  await configure(h);
  if (h.random.chance(0.2)) {
    await h.world.bringSpoolsBack();
    h.log("spools come back");
  }
  h.log(`${h.naming.customers} ${h.naming.resolve} ${h.naming.enrich}: ${JSON.stringify(h.tables)}`);
}

async function erase(h: History): Promise<void> {
  const row = h.random.pick([
    { id: 0, name: null },
    ...h.tables.customers.filter(
      (row) => isSolo(row) && !h.reference.erased.has(String(row.name).toLowerCase()),
    ),
  ]);
  if (row.name === null) return;
  const person = row.name.toLowerCase();
  const isRead = h.jobs.some(
    (job) => job.type === "enrich" && h.reference.stateOf(job)?.read.get(String(row.id))?.isSure === true,
  );
  const what =
    isRead && h.random.chance(0.7)
      ? ["--source-key", `${h.naming.customers}/${row.id}`]
      : ["--email", `${person}@x`];
  h.log(`erase ${what.join(" ")}`);
  const { code, document } = await h.world.command("erase", ...what, "--yes", "--ignore-missing");
  if (code !== 0 && code !== 3) fail("an erasure succeeds or waits", { code, document });
  h.reference.erased.add(person);
  h.absences.forget(await learnTombstones(h));
  await checkErased(h);
}

async function redefineInputs(h: History): Promise<void> {
  h.naming.where = h.naming.where === "true" ? "1 = 1" : "true";
  await configure(h);
  h.log(`now ${JSON.stringify(h.naming)}`);
  await spendRun(h, {}, undefined);
}

async function changeParameters(h: History): Promise<void> {
  if (h.random.chance(0.5)) h.naming.returnFields = h.naming.returnFields.length === 0 ? ["full_name"] : [];
  else h.naming.hasCity = !h.naming.hasCity;
  await configure(h);
  h.log(`now ${JSON.stringify(h.naming)}`);
  if (h.random.chance(0.4)) await spendRun(h, {}, undefined);
  const mayKeep =
    h.shape.isKeyUnique &&
    !h.shape.validates &&
    h.jobs.every((job) =>
      h.reference.changed(job, h.reference.view(job, rowsOf(h, job))).every(({ isSure }) => isSure),
    );
  await spendRun(h, { acceptParameters: mayKeep && h.random.chance(0.5) ? "keep" : "resend" }, undefined);
}

/** Runs at once, and gives the reference the answers of dead runs that they loaded. */
async function runAtOnce(h: History, each: readonly RunOptions[]) {
  const before = h.world.service.calls.length;
  h.log(`day ${h.reference.day}: run ${JSON.stringify(each)}`);
  const runs = await Promise.all(each.map((options) => h.world.run(options)));
  h.totals.runs += runs.length;
  const calls = h.world.service.calls.slice(before);
  for (const call of calls) h.days.set(call.serial, h.reference.day);
  const rows = await h.world.rows<{ id: string }>(
    "SELECT api_request_id AS id FROM api_call WHERE api_request_id LIKE 'req-%'",
  );
  const fresh = new Set(rows.map(({ id }) => id).filter((id) => !h.loaded.has(id)));
  for (const id of fresh) h.loaded.add(id);
  const learned = h.world.service.calls.filter(({ requestId }) => requestId !== null && fresh.has(requestId));
  const tags = new Set(runs.map(({ tag }) => tag));
  const leftovers = learned.filter((call) => !tags.has(call.run));
  for (const run of runs) {
    const ends = run.report?.jobs.map(({ job, status }) => `${job} ${status}`) ?? ["died"];
    h.log(`  ${run.tag}: ${ends.join(", ")}; sent ${[...distinct(callsOf(h, run))].join(" ")}`);
  }
  if (leftovers.length > 0) h.log(`  loaded ${leftovers.map(({ requestId }) => requestId).join(" ")}`);
  apply(h, leftovers);
  for (const { report } of runs) if (report === null) await bury(h);
  return {
    runs,
    calls,
    /** Calls of these runs whose answers are loaded. */
    loaded: learned.filter((call) => tags.has(call.run)),
    /** Contents that answers of dead runs were loaded for. */
    late: new Set(leftovers.flatMap(({ kind, contents }) => contents.map((content) => `${kind} ${content}`))),
  };
}

async function spendRun(h: History, flags: Partial<RunRequest>, death: Death | undefined): Promise<void> {
  const { runs, loaded, late } = await runAtOnce(h, [{ flags, ...(death ? { death } : {}) }]);
  const [run] = runs;
  if (!run) return;
  h.totals.sent += distinct(callsOf(h, run)).size;
  const recorded = await h.world.rows<{ job: string; status: string; records_remaining: string }>(
    `SELECT job, status, records_remaining FROM sync_run WHERE run_id = '${run.runId}'`,
  );
  const rowChecks: (() => Promise<void>)[] = [];
  const erased = await learnTombstones(h);
  const missing = new Set<string>();
  for (const [i, job] of h.jobs.entries()) {
    const later = new Set(h.jobs.slice(i).map(({ name }) => name));
    const own = callsOf(h, run, job);
    const views = h.reference.view(job, rowsOf(h, job));
    const report = run.report?.jobs.find((one) => one.job === job.name);
    const decided = flags.acceptParameters ?? null;
    const changed = h.reference.changed(job, views);
    if (decided === "keep" && changed.length > 0) h.reference.keep(job, changed);
    const isStopped = report
      ? report.limited_by === "parameters_changed"
      : decided === null && changed.length > 0;
    if (isStopped && (decided !== null || changed.length === 0))
      fail("only changed parameters stop a run", { job: job.name, changed });
    if (report && !isStopped && decided === null && changed.some(({ isSure }) => isSure))
      fail("changed parameters stop a run", { job: job.name, changed });
    if (isStopped && own.length > 0)
      fail("changed parameters buy nothing", { job: job.name, sent: distinct(own) });
    if (isStopped) continue;
    const isKnown = h.reference.stateOf(job) !== undefined;
    const ended = recorded.find((one) => one.job === job.name);
    if (ended) h.reference.accept(job);
    const state = h.reference.stateOf(job);
    const kind = kindOfJob(job);
    // A death while leftovers are h.loaded comes before the reading.
    const isRead =
      ended &&
      (ended.status === "succeeded" || own.length > 0 || !LOADING.includes(death?.point ?? "before_send"));
    if (flags.resend === true && state && isKnown && (report || isRead)) {
      const isOlder = (content: string) => {
        const known = h.reference.known(kind, content);
        return known?.isRejected === false && known.serial < state.resendFrom;
      };
      const left = [...(h.open.get(kind) ?? [])].filter(isOlder);
      const [stored] = await h.world.rows<{ number: string | null }>(
        `SELECT resend_below AS number FROM person_data_state.lookup_job WHERE job = '${job.name}' AND source = '${job.input.name}'`,
      );
      const drewNumber = stored?.number !== state.drawn;
      state.drawn = stored?.number ?? null;
      // Whether what may be left is left, the product knows.
      const isUnderWay = left.length > 0 && !drewNumber;
      if (left.length === 0 && !drewNumber)
        fail("a resend draws a number unless one is under way", { job: job.name, state });
      const ofRun = callsOf(h, run);
      const earlier = h.world.service.calls.filter((call) => call.run !== run.runId || !later.has(call.job));
      const [first] = ofRun.filter((call) => call.kind === kind && !later.has(call.job));
      // What another job of the run sent again counts for this one.
      if (!isUnderWay) state.resendFrom = first?.serial ?? 1 + (earlier.at(-1)?.serial ?? 0);
    }
    const due = h.reference.due(job, views);
    const sent = distinct(own);
    // What the service refused is free, and forgotten where no row has it.
    for (const content of sent)
      if (!due.may.has(content) && !late.has(`${kind} ${content}`) && !isPoison(content))
        fail("only what is due is sent", {
          job: job.name,
          content,
          due,
          known: h.reference.known(kind, content),
          state,
        });
    const isBudgeted = h.shape.perDay !== null && job.type === "enrich";
    const most = flags.maxRecords ?? null;
    const isComplete = ended?.status === "succeeded" && Number(ended.records_remaining) === 0;
    for (const key of countAbsences(h, job, run.report !== null, isComplete ? erased : null))
      missing.add(key);
    if (isComplete)
      for (const content of due.must)
        if (!sent.has(content)) fail("everything due is sent", { job: job.name, content, due, sent });
    if (report && !isBudgeted) {
      if (most !== null && due.must.size === due.may.size && sent.size !== Math.min(most, due.must.size))
        fail("a run sends as much as its cap allows", { job: job.name, due, sent, most });
      if (most !== null && h.shape.hasOrder && h.shape.isKeyUnique && due.must.size === due.may.size)
        checkOrder(job, views, due.must, sent);
      if (most === null && !isComplete)
        fail("a run without limits is complete", { job: job.name, report, warnings: run.warnings });
    }
    if (report) checkReport(h, run, report, job, most);
    const answers = loaded.filter((call) => call.job === job.name);
    apply(h, answers);
    if (isComplete) {
      for (const content of due.may) {
        const isTried = sent.has(content) || h.reference.uncertain.get(kind)?.has(content) === true;
        if (isPoison(content) && isTried) h.reference.reject(kind, content, own.at(-1)?.serial ?? 0);
        h.reference.uncertain.get(kind)?.delete(content);
      }
    } else doubt(h, own);
    // What was sent without an answer is still due.
    const answered = distinct(answers);
    h.open.set(
      kind,
      new Set([...(h.open.get(kind) ?? []), ...due.may].filter((content) => !answered.has(content))),
    );
    // Later jobs of the run may answer equal contents of other inputs.
    if (report) rowChecks.push(() => checkRows(h, job, [views], isComplete));
    h.reference.settle(job, rowsOf(h, job), views, report !== undefined);
    h.totals.checks += 1;
  }
  for (const check of rowChecks) await check();
  forgetUnwanted(h);
  forgetErased(h, erased, missing);
  if (run.report) {
    for (const job of h.jobs) await checkMissing(h, job);
    checkCounters(run.report);
    await checkRetired(h);
  }
  checkBudget(h);
  await checkErased(h);
}

async function spendAtOnce(h: History): Promise<void> {
  const count = h.random.pick([2, 2, 3]);
  const runId = `shards-${h.world.service.calls.length}-${h.totals.runs}`;
  const enriching = h.jobs.filter(({ type }) => type === "enrich");
  const each: Partial<RunRequest>[] = h.random.chance(0.6)
    ? Array.from({ length: count }, (_, index) => ({ shard: { index, count }, runId }))
    : enriching.map(({ name }) => ({ jobs: [name] }));
  const dies = h.random.chance(0.3) ? h.random.below(each.length) : null;
  const death = { point: h.random.pick(POINTS), count: 1 + h.random.below(4) };
  const { runs, calls, loaded, late } = await runAtOnce(
    h,
    each.map((flags, i) => ({ flags, ...(i === dies ? { death } : {}) })),
  );
  const looked = h.jobs.map((job) => ({
    job,
    views: h.reference.view(job, rowsOf(h, job)),
    fresh: h.reference.freshFor(job),
  }));
  const due = looked.map(({ job, views }) => h.reference.due(job, views));
  const erased = await learnTombstones(h);
  const missing = new Set<string>();
  for (const job of h.jobs.filter(({ name }) => each.some(({ jobs }) => jobs?.includes(name) !== false))) {
    const isSure = runs.every(({ report }) => report !== null);
    for (const key of countAbsences(h, job, isSure, null)) missing.add(key);
  }
  apply(h, loaded);
  for (const [i, { job, views, fresh }] of looked.entries()) {
    const kind = kindOfJob(job);
    const after = h.reference.view(job, rowsOf(h, job));
    const wanted = new Set(
      [...after.values()].flatMap(({ contents }) => [...contents]).filter((content) => !fresh.has(content)),
    );
    const own = calls.filter((call) => call.job === job.name);
    for (const content of distinct(own))
      if (!due[i]?.may.has(content) && !wanted.has(content) && !late.has(`${kind} ${content}`))
        fail("only what is due is sent", {
          job: job.name,
          content,
          due: due[i],
          known: h.reference.known(kind, content),
        });
    if (runs.some(({ report }) => report === null)) doubt(h, own);
    else {
      for (const content of distinct(own))
        if (isPoison(content)) h.reference.reject(kind, content, own.at(-1)?.serial ?? 0);
      const isRead = runs.every(({ report }) => report?.jobs.every(({ status }) => status === "succeeded"));
      if (isRead && (each[0]?.shard !== undefined || job.type === "enrich"))
        await checkRows(h, job, [views, after], false);
    }
    for (const run of runs) {
      const report = run.report?.jobs.find((one) => one.job === job.name);
      if (report) checkReport(h, run, report, job, null);
      if (report) h.reference.accept(job);
    }
    const isSure = runs.every(({ report }) => report !== null);
    h.reference.settle(job, rowsOf(h, job), views, isSure);
    h.reference.settle(job, rowsOf(h, job), h.reference.view(job, rowsOf(h, job)), isSure);
    h.totals.checks += 1;
  }
  for (const { report } of runs) {
    if (report) checkCounters(report);
  }
  const paid = calls.flatMap(({ kind, requestId, contents }) =>
    requestId === null ? [] : contents.map((content) => `${kind} ${content}`),
  );
  const twice = paid.filter((one, i) => paid.indexOf(one) !== i && !late.has(one));
  if (twice.length > 0) fail("runs at once pay a content once", { twice });
  h.totals.sent += new Set(paid).size;
  forgetErased(h, erased, missing);
  checkBudget(h);
  await checkErased(h);
}

/** Gives answers to the reference. */
function apply(h: History, calls: readonly Call[]): void {
  for (const call of calls) h.reference.apply(call, h.days.get(call.serial) ?? h.reference.day);
}

/** Leaves open whether the service's refusal of a content is recorded. */
function doubt(h: History, calls: readonly Call[]): void {
  for (const { kind, contents } of calls) {
    const list = h.reference.uncertain.get(kind) ?? new Set();
    h.reference.uncertain.set(kind, list);
    for (const content of contents) if (isPoison(content)) list.add(content);
  }
}

function forgetUnwanted(h: History): void {
  for (const kind of new Set(h.jobs.map(kindOfJob))) {
    const wanted = new Set(
      h.jobs
        .filter((job) => kindOfJob(job) === kind)
        .flatMap((job) =>
          [...h.reference.view(job, rowsOf(h, job)).values()].flatMap((view) => [...view.contents]),
        ),
    );
    const open = h.open.get(kind);
    for (const content of open ?? []) if (!wanted.has(content)) open?.delete(content);
    h.reference.doubtUnwanted(kind, wanted);
  }
}

async function bury(h: History): Promise<void> {
  h.totals.kills += 1;
  await h.world.sql(`UPDATE person_data_state.job_lock SET heartbeat_at = heartbeat_at - interval '1 hour',
    expires_at = expires_at - interval '1 hour' WHERE released_at IS NULL`);
}
