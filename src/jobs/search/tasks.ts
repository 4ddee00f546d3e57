import { randomUUID } from "node:crypto";
import { z } from "zod";
import { UNLOCK } from "../../config/schema/prices.ts";
import { choice, settings, wholeNumber } from "../../config/schema/settings.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import type { FreeEndpoint } from "../../extract/free-call.ts";
import { type ResultPage, resultsCall, statusCall } from "../../extract/pages.ts";
import type { Commit } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { DriftLog } from "../../schemas/convert.ts";
import { isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import { collectErrors, type FeedContext, goneError, upsertRejects } from "../feed.ts";
import type { JobPlan } from "../job-type.ts";
import { reserveWhole } from "../lookup/lookup-spec.ts";
import { priceOf } from "../price.ts";

/** `never`, or the largest charge that the user accepts. */
export function unlockSetting() {
  const ceiling = settings({ max_billable: wholeNumber(0, Number.MAX_SAFE_INTEGER) });
  return z
    .union([choice(["never"], "or { max_billable: 5000 }"), ceiling])
    .default("never")
    .transform((unlock) => (unlock === "never" ? null : unlock));
}

export const taskCursor = z.object({
  /** Last state; null before the first reading. */
  status: z.string("must be a state").nullable().default(null),
  error_code: z.string("must be a code").nullable().default(null),
  /** A charge that is not known yet: its reservation in the ledger, made before the call, and the most that it can be. */
  unlock: z
    .object({ call_id: z.uuid(), records: z.int().min(0) })
    .nullable()
    .default(null),
});

type TaskCursor = Readonly<z.output<typeof taskCursor>>;

/** Search or contact job at the service, which is waited for, unlocked and read. */
export interface Task<Cursor extends TaskCursor = TaskCursor> {
  readonly endpoints: {
    readonly status: FreeEndpoint;
    readonly unlock: FreeEndpoint;
    readonly results: FreeEndpoint;
  };
  /** Member of a page that has its items. */
  readonly list: "pids" | "results";
  readonly finalStates: ReadonlySet<string>;
  /** `audience` or `contact job`, and its name, in messages. */
  readonly noun: string;
  readonly name: string;
  /** Remedies in messages. */
  readonly ifFailed: string;
  readonly ifGone: string;
  readonly stream: string;
  /** Largest charge that the user accepts; null to unlock nothing. */
  readonly unlock: { readonly maxBillable: number } | null;
  /** ID at the service; empty before it is submitted. */
  id: string;
  cursor: Cursor;
  /** Rows about a task whose cursor becomes this one, with the state if it was read. */
  rowsOf(cursor: Cursor, state: State | null): readonly Upsert[];
}

export interface State {
  readonly body: JsonObject;
  readonly drift: DriftLog;
}

interface Steps<T> {
  /** Submits a task that is not submitted yet. */
  submit?(task: T): Promise<void>;
  /** True if something is left to do: to wait, to unlock, to read results. */
  isOpen(task: T): boolean;
  /** Unlocks and reads a completed task. Returns false if its state has to be read again. */
  complete(task: T, body: JsonObject): Promise<boolean>;
}

type Context = FeedContext & { readonly job: { readonly deadlineMs: number } };

/** Recommended interval between two readings of a state (section 4.2). */
const [LEAST_MS, MOST_MS] = [2000, 5000];

/**
 * Brings all tasks to their end; where one fails, the others continue. Throws a LimitReachedError once the deadline of the run has
 * passed, so that the next run resumes.
 */
export async function runTasks<T extends Task>(
  context: Context,
  tasks: readonly T[],
  steps: Steps<T>,
  errors = collectErrors(),
): Promise<void> {
  const { clock, random, signal, job, progress } = context;
  const endMs = clock.now() + job.deadlineMs;
  const open = new Set(tasks);
  let [unchanged, limited] = [0, 0];
  const work = async (task: T, step: () => Promise<boolean>) => {
    try {
      if (!(await step())) return;
    } catch (error) {
      errors.keep(error);
      if (error instanceof LimitReachedError) limited += 1;
    }
    open.delete(task);
  };
  try {
    for (const task of tasks) {
      await work(task, async () => {
        await steps.submit?.(task);
        if (steps.isOpen(task)) return false;
        unchanged += 1;
        throwIfFailed(context, task);
        return true;
      });
    }
    for (let isNoted = false; ; isNoted = true) {
      for (const task of open) await work(task, () => advance(context, task, steps));
      if (open.size === 0) break;
      const names = [...open].map(({ name }) => name).join(", ");
      if (clock.now() >= endMs) {
        const message = `${job.name}: ${names} did not finish in time. The next run resumes.`;
        errors.keep(new LimitReachedError("deadline", message));
        break;
      }
      if (!isNoted) progress.note(job.name, `waiting for the service to finish ${names}`);
      // Small searches are finished by the first poll.
      await clock.sleep(LEAST_MS + (isNoted ? random() * (MOST_MS - LEAST_MS) : 0), signal);
    }
  } finally {
    const remaining = open.size + limited;
    context.count({
      records_read: tasks.length,
      records_unchanged: unchanged,
      records_sent: tasks.length - unchanged - remaining,
      records_remaining: remaining,
    });
  }
  errors.throwIfAny();
}

async function advance<T extends Task>(context: Context, task: T, steps: Steps<T>): Promise<boolean> {
  const { log, job } = context;
  const wasFinal = isFinal(task);
  const call = statusCall(task.endpoints.status, task.id);
  const reply = await context.call({ ...call, expects: [404, 503] });
  if (reply.kind === "refused") {
    // The status is temporarily unavailable.
    if (reply.status === 503) return false;
    throw gone(context, task, task.endpoints.status);
  }
  await store(context, task, { state: { body: reply.value, drift: reply.drift } });
  if (!isFinal(task)) return false;
  if (!wasFinal)
    log.info({ job: job.name, search: task.name, status: task.cursor.status }, "search_finished");
  throwIfFailed(context, task);
  return steps.complete(task, reply.value);
}

export function isFinal({ cursor, finalStates }: Task): boolean {
  return cursor.status !== null && finalStates.has(cursor.status);
}

function throwIfFailed({ job }: FeedContext, task: Task): void {
  const { status, error_code: code } = task.cursor;
  if (!isFinal(task) || status === "completed") return;
  const end = status === "cancelled" ? "was cancelled" : "failed";
  const cause = code === null ? "" : ` (${code})`;
  throw new StopJobError("search_failed", `${job.name}: ${subjectOf(task)} ${end}${cause}. ${task.ifFailed}`);
}

function gone({ job }: FeedContext, { noun, id, ifGone }: Task, { name }: FreeEndpoint): StopJobError {
  const next = `Its stored rows are kept. ${ifGone}`;
  return goneError("search_gone", `${job.name}: ${name}`, `${noun} ${id}`, next);
}

const subjectOf = ({ noun, name }: Task) => `the ${noun} ${name}`;

export function planOfTasks(read: number, due: number): Partial<JobPlan> {
  return {
    records_read: read,
    records_due: due,
    due_reasons: { never_answered: due },
    records_unchanged: read - due,
    records_to_send: due,
    ...(due === 0 ? { remarks: [] } : {}),
  };
}

/** Rows, and writes of the ledger, of one commit about a task. */
interface Stored<Cursor> extends Pick<Commit, "charge"> {
  readonly state?: State;
  readonly upserts?: readonly Upsert[];
  readonly also?: Commit<void>["also"];
  readonly drift?: DriftLog;
  readonly cursor?: Partial<Cursor> | Partial<TaskCursor>;
  /** Items of pages. */
  readonly received?: number;
  /** Items that can't be stored. */
  readonly rejects?: Upsert | undefined;
}

/** Rejects the items of pages that can't be stored; undefined for none. Keeps the rejects of other pages. */
export function rejectItems(
  context: FeedContext,
  { noun, id, list }: Task,
  pages: readonly Pick<ResultPage, "items" | "offset">[],
  isUsable: (item: unknown) => boolean,
): Upsert | undefined {
  const positions = pages.flatMap(({ items, offset }) =>
    items.flatMap((item, i) => (isUsable(item) ? [] : [offset + i])),
  );
  if (positions.length === 0) return undefined;
  const { name } = context.job;
  const rejects = positions.map((position) => ({
    identity: ["unusable_result", name, id, String(position)],
    sourceKey: null,
    message: `Item ${position} of \`${list}\` of the ${noun} ${id} can't be stored.`,
  }));
  const { missing: _others, ...upsert } = upsertRejects(
    context,
    { source: name, code: "unusable_result" },
    () => rejects,
  );
  return { ...upsert, rows: [...upsert.rows] };
}

/** Commits what is known of a task together with its cursor. */
export async function store<Cursor extends TaskCursor>(
  context: FeedContext,
  task: Task<Cursor>,
  {
    state,
    upserts = [],
    also,
    drift = state?.drift,
    cursor: change,
    received = 0,
    rejects,
    charge,
  }: Stored<Cursor>,
): Promise<void> {
  const cursor: Cursor = { ...task.cursor, ...(state && stateOf(state.body)), ...change };
  await context.commit<void>({
    upserts: [...task.rowsOf(cursor, state ?? null), ...upserts, ...(rejects ? [rejects] : [])],
    also,
    charge,
    checkpoints: [{ stream: task.stream, cursor }],
    counters: { records_received: received, records_rejected: [...(rejects?.rows ?? [])].length },
    drift: drift?.entries() ?? [],
  });
  task.cursor = cursor;
}

/** State and code of its error, as a checkpoint keeps them: words, never free text. */
function stateOf(body: JsonObject): Pick<TaskCursor, "status" | "error_code"> {
  const { status, error, error_code: code } = body;
  return {
    status: wordOf(status) ?? "unknown",
    error_code: wordOf(isJsonObject(error) ? error["code"] : code),
  };
}

function wordOf(value: unknown): string | null {
  return typeof value === "string" && /^\w{1,60}$/u.test(value) ? value : null;
}

/** Records the charge in progress, if there is one; `billed` is null for none. */
export async function recordCharge(context: FeedContext, task: Task, billed: number | null): Promise<void> {
  const { unlock } = task.cursor;
  if (unlock === null) return;
  await store(context, task, { charge: { callId: unlock.call_id, billed }, cursor: { unlock: null } });
}

/** Reads a page of results that charges nothing. */
export async function readFree(
  context: FeedContext,
  { endpoints, id, list }: Task,
  offset: number,
  drift = new DriftLog(endpoints.results.name),
): Promise<ResultPage> {
  const call = resultsCall(endpoints.results, { id, list, offset });
  const reply = await context.call({ ...call, read: (bytes) => call.read(bytes, drift) });
  if (reply.kind === "refused") throw reply.stop;
  return reply.value;
}

interface ChargedPage extends ResultPage {
  readonly reserved: NonNullable<TaskCursor["unlock"]>;
  /** True if an earlier call without an answer may have been charged, so that this answer doesn't state it. */
  readonly isChargeUnknown: boolean;
}

/**
 * Reads a page that may be charged, and reserves its largest charge first. Returns null if the service refuses it for the moment
 * (409): not completed, or another unlock is in progress.
 * @param charge `records`: the largest charge, null if unknown; `before`: charge of earlier pages
 */
export async function readCharged(
  context: FeedContext,
  task: Task,
  endpoint: FreeEndpoint,
  {
    records,
    before,
    offset,
  }: { readonly records: number | null; readonly before: number; readonly offset: number },
): Promise<ChargedPage | null> {
  const subject = `${context.job.name}: ${subjectOf(task)}`;
  if (records === null) {
    throw new StopJobError(
      "count_unknown",
      `${subject} has no known number of results, so an unlock could cost anything. Nothing was unlocked.`,
    );
  }
  const ceiling = task.unlock?.maxBillable ?? 0;
  // An earlier charge stays: its unlock may be in progress, and is settled once the service states it.
  if (before + records > ceiling) {
    throw new LimitReachedError(
      "unlock_ceiling",
      `${subject} may be billed up to ${before + records} records when unlocked: more than max_billable (${ceiling}) allows. ` +
        `${before === 0 ? "Nothing" : "Nothing more"} was unlocked. Raise max_billable to unlock it.`,
    );
  }
  const wasOpen = task.cursor.unlock !== null;
  const { reserved, wasSent } = await reserveRecords(context, task, endpoint, records);
  const call = resultsCall(endpoint, { id: task.id, list: task.list, offset });
  const own = { callId: reserved.call_id, records: reserved.records };
  const reply = await context.call({
    ...call,
    reserved: wasSent ? undefined : own,
    expects: [402, 403, 404, 409],
  });
  const isChargeUnknown = wasOpen || reply.mayBeDone;
  if (reply.kind === "answer") return { ...reply.value, reserved, isChargeUnknown };
  // A charge can't be repeated, so after 402 there was none. Other refusals leave the charge of a lost answer unknown.
  if (reply.status === 402 || !isChargeUnknown) await recordCharge(context, task, null);
  if (reply.status === 409) return null;
  if (reply.status === 404) throw gone(context, task, endpoint);
  if (reply.status !== 402) throw reply.stop;
  throw new LimitReachedError(
    "credits",
    `${context.job.name}: the plan doesn't cover ${records} records of ${task.name} from position ${offset} on (402). What was unlocked ` +
      "before is kept; run again when there are new credits.",
  );
}

/** Writes down a charge and reserves it in the budgets, whole or not at all; keeps that of an earlier run if it suffices. */
async function reserveRecords(context: FeedContext, task: Task, { name }: FreeEndpoint, records: number) {
  const { config, request, job } = context;
  let { unlock: reserved } = task.cursor;
  if (reserved === null || reserved.records < records) {
    await recordCharge(context, task, null);
    reserved = { call_id: randomUUID(), records };
    await store(context, task, { cursor: { unlock: reserved } });
  }
  const call = {
    callId: reserved.call_id,
    endpoint: name,
    records: reserved.records,
    price: priceOf(config, UNLOCK),
    budget: UNLOCK,
    maxRecords: request.maxRecords,
  };
  const tooFew = (limit: string) =>
    `${job.name}: up to ${records} records may be billed, more than ${limit} has left.`;
  try {
    const { wasSent = false } = await reserveWhole(context, call, tooFew);
    return { reserved, wasSent };
  } catch (error) {
    // Nothing was reserved, so nothing was sent.
    if (error instanceof LimitReachedError) await recordCharge(context, task, null);
    throw error;
  }
}
