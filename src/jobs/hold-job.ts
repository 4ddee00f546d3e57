import { codeOf, LockLostError } from "../errors.ts";
import type { JobServices } from "./services.ts";
import {
  acquireLock,
  isInTheWay,
  type LockHolder,
  type LockReply,
  type LockRequest,
  readHolders,
  releaseLock,
  renewLock,
} from "../load/runs/lock.ts";
import type { RunRef } from "../load/runs/fence.ts";
import { describeThisProcess, stateOfProcess } from "../process-state.ts";

export interface HeldJob {
  readonly run: RunRef;
  /** Aborted with a LockLostError when the lock is lost, or when the user stops the run. */
  readonly signal: AbortSignal;
  /** Releases the lock; always call it at the end. */
  readonly release: () => Promise<void>;
}

type Hold =
  | { readonly kind: "held"; readonly held: HeldJob }
  | {
      readonly kind: "refused";
      readonly message: string;
      readonly holders: readonly LockHolder[];
    };

type Services = Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">;

/** Heartbeats per lock lifetime: three may fail before it expires. */
const HEARTBEATS = 4;
const POLL_MS = 2_000;

/**
 * Takes the lock of a job and renews it by heartbeats until it is released. Takes over expired holders and those whose
 * process has ended.
 */
export async function holdJob(
  services: Services,
  wanted: Omit<RunRef, "epoch">,
  { waitMs }: { readonly waitMs: number },
): Promise<Hold> {
  const { log, config } = services;
  const process = await describeThisProcess();
  const request = { ...wanted, process, lifeMs: config.lockLifeMs };
  const wait = createLockWait(services, waitMs);
  let reply = await acquire(services, request);
  while (reply.kind === "refused") {
    const { holders } = reply;
    if (!(await wait.pause(wanted.job, holders))) {
      return { kind: "refused", message: lockedText(wanted.job, holders), holders };
    }
    reply = await acquire(services, request);
  }
  for (const holder of reply.tookOver) log.warn(fieldsOf(holder), "lock_taken_over");
  return { kind: "held", held: keepAlive(services, reply.run) };
}

/**
 * Takes over and releases every expired lock, so that an abandoned run of any job neither holds back `safe_until` nor an
 * erasure. Returns true if there was one.
 */
export async function takeOverExpired(services: Services): Promise<boolean> {
  const expired = (await readHolders(services.db)).filter(({ isExpired }) => isExpired);
  for (const { job, shard } of expired) {
    const hold = await holdJob(services, { job, shard, jobType: "", runId: "takeover" }, { waitMs: 0 });
    if (hold.kind === "held") await hold.held.release();
  }
  return expired.length > 0;
}

/** Requests the lock; retries once if all holders are found dead. */
async function acquire({ db }: Services, request: Omit<LockRequest, "dead">): Promise<LockReply> {
  const reply = await acquireLock(db, { ...request, dead: [] });
  if (reply.kind === "held") return reply;
  const alive = await withoutEnded(reply.holders);
  const dead = reply.holders.filter((holder) => !alive.includes(holder));
  return dead.length < reply.holders.length ? reply : acquireLock(db, { ...request, dead });
}

function createLockWait(services: Services, waitMs: number) {
  const { clock, config, signal } = services;
  const endMs = clock.now() + waitMs;
  let reported = "";
  return {
    /** Pauses before the next attempt; false once the time is up. Reports each new holder. */
    async pause(job: string, holders: readonly LockHolder[]): Promise<boolean> {
      const leftMs = endMs - clock.now();
      if (leftMs <= 0) return false;
      const names = JSON.stringify(holders.map(({ shard, epoch }) => [job, shard, epoch]));
      if (names !== reported) reportWaiting(services, job, holders);
      reported = names;
      await clock.sleep(Math.min(POLL_MS, config.lockLifeMs / HEARTBEATS, leftMs), signal);
      return true;
    },
  };
}

/** Waits until no other process holds a job of a chain; returns the reason if one still does, null if none does or at a signal. */
export async function findHeldChain(
  services: Services,
  jobs: readonly Pick<RunRef, "job" | "shard">[],
  { waitMs }: { readonly waitMs: number },
): Promise<{ readonly job: string; readonly message: string } | null> {
  const wait = createLockWait(services, waitMs);
  try {
    while (!services.signal.aborted) {
      const held = await findHeldJob(services, jobs);
      if (held === null) return null;
      const { job, holders } = held;
      if (!(await wait.pause(job, holders))) return { job, message: lockedText(job, holders) };
    }
  } catch (error) {
    if (!services.signal.aborted) throw error;
  }
  return null;
}

async function findHeldJob(
  { db }: Services,
  jobs: readonly Pick<RunRef, "job" | "shard">[],
): Promise<{ readonly job: string; readonly holders: readonly LockHolder[] } | null> {
  const alive = await withoutEnded(await readHolders(db));
  for (const { job, shard } of jobs) {
    const holders = alive.filter((holder) => holder.job === job && isInTheWay(holder, shard));
    if (holders.length > 0) return { job, holders };
  }
  return null;
}

/** Leaves out holders that have expired, or whose process has ended for certain. */
export async function withoutEnded(holders: readonly LockHolder[]): Promise<readonly LockHolder[]> {
  const ourselves = await describeThisProcess();
  const states = await Promise.all(holders.map((holder) => stateOfProcess(holder, ourselves)));
  return holders.filter(({ isExpired }, i) => !isExpired && states[i] !== "ended");
}

function reportWaiting({ log, progress }: Services, job: string, holders: readonly LockHolder[]): void {
  for (const holder of holders) log.info(fieldsOf(holder), "waiting_for_lock");
  const expiry = `its lock expires at ${expiryOf(holders)} unless renewed`;
  progress.note(job, `${job}: waiting for another process: ${listOf(holders)}; ${expiry}`);
}

function fieldsOf({ job, shard, runId, host, pid, acquiredAt, heartbeatAt, expiresAt }: LockHolder): object {
  return {
    job,
    shard,
    run_id: runId,
    host,
    process: pid,
    acquired_at: acquiredAt,
    heartbeat_at: heartbeatAt,
    expires_at: expiresAt,
  };
}

/** Sends heartbeats until the lock is released or lost. */
function keepAlive({ db, clock, log, config, signal }: Services, run: RunRef): HeldJob {
  const lost = new AbortController();
  const released = new AbortController();
  const everyMs = config.lockLifeMs / HEARTBEATS;

  async function beat(): Promise<void> {
    let pauseMs = everyMs;
    for (;;) {
      await clock.sleep(pauseMs, released.signal);
      try {
        if (!(await renewLock(db, run, config.lockLifeMs))) break;
        pauseMs = everyMs;
      } catch (error) {
        // If the lock is lost, the next successful heartbeat shows it. Until then, no commit passes the fence.
        log.warn({ job: run.job, code: codeOf(error) }, "heartbeat_failed");
        pauseMs = everyMs / HEARTBEATS;
      }
    }
    if (released.signal.aborted) return;
    log.warn({ job: run.job, shard: run.shard, epoch: run.epoch }, "lock_lost");
    lost.abort(
      new LockLostError(
        `${run.job}: another process took over the job, because this one sent no heartbeat for too long. This process has stopped ` +
          "sending and writing; committed work is kept.",
      ),
    );
  }

  // The loop ends when `released` aborts its sleep.
  const beating = beat().catch(() => {});
  return {
    run,
    signal: AbortSignal.any([signal, lost.signal]),
    async release() {
      released.abort();
      await beating;
      if (lost.signal.aborted) return;
      try {
        await releaseLock(db, run);
      } catch (error) {
        log.warn({ job: run.job, code: codeOf(error), life_ms: config.lockLifeMs }, "lock_not_released");
      }
    },
  };
}

/** Message about a held job. @param next what didn't happen, and the next step */
export function lockedText(
  job: string,
  holders: readonly LockHolder[],
  next = "Nothing was sent. Run again with --wait to wait for it.",
): string {
  return (
    `Another process is running ${job}: ${listOf(holders)}. ${next} If that process hangs, end it: its lock expires at ` +
    `${expiryOf(holders)} without a heartbeat.`
  );
}

/** Lists holders: `run R (process 4711 on etl-1) since 2026-11-21T05:00:00Z`. */
function listOf(holders: readonly LockHolder[]): string {
  const texts = holders.map(({ runId, shard, pid, host, acquiredAt }) => {
    const part = shard === "0/1" ? "" : `, shard ${shard}`;
    return `run ${runId} (process ${pid} on ${host}${part}) since ${toSecond(acquiredAt)}`;
  });
  return texts.join("; ");
}

function expiryOf(holders: readonly LockHolder[]): string {
  const instants = holders.map(({ expiresAt }) => expiresAt);
  return toSecond(instants.toSorted().at(-1) ?? "");
}

function toSecond(instant: string): string {
  return instant.replace(/\.\d+/, "");
}
