import { acquireLock, releaseLock, renewLock } from "../load/runs/job-lock.ts";
import { codeOf, LockLostError } from "../errors.ts";
import type { LockHolder, LockReply, LockRequest, RunRef } from "../load/lookup.ts";
import { lockedText, waitingText } from "./lock-text.ts";
import { describeThisProcess, hasEnded } from "./runner-process.ts";
import type { JobServices } from "./services.ts";

/** A job that this process runs and nobody else. */
export interface HeldJob {
  readonly run: RunRef;
  /** Aborted when the lock is lost, with a LockLostError, or when the user wants to stop. */
  readonly signal: AbortSignal;
  /** Gives the job back; to be called at every end. */
  readonly release: () => Promise<void>;
}

/** A job held, or why it isn't. */
export type Hold =
  | { readonly kind: "held"; readonly held: HeldJob }
  | {
      readonly kind: "refused";
      /** For somebody who wanted to run it. */
      readonly message: string;
      readonly holders: readonly LockHolder[];
    };

type Services = Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">;

/** Signs of life in the life of a lock: three may fail before it expires. */
const HEARTBEATS = 4;
/** How often a waiting process looks whether the job is free. */
const POLL_MS = 2_000;

/**
 * Gets a job for this process and keeps it with heartbeats until it is released. Holders that have expired, or whose
 * process is known to have ended, are taken over.
 */
export async function holdJob(
  services: Services,
  wanted: Omit<RunRef, "epoch">,
  options: { readonly wait: boolean },
): Promise<Hold> {
  const { log, config } = services;
  const process = await describeThisProcess();
  const request = { ...wanted, process, lifeMs: config.lockLifeMs };
  let reply = await acquire(services, request);
  let toldOf = "";
  while (reply.kind === "refused") {
    const { holders } = reply;
    if (!options.wait) return { kind: "refused", message: lockedText(wanted.job, holders), holders };
    const told = JSON.stringify(holders.map(({ shard, epoch }) => [shard, epoch]));
    if (told !== toldOf) tellWaiting(services, wanted.job, holders);
    toldOf = told;
    await services.clock.sleep(Math.min(POLL_MS, config.lockLifeMs / HEARTBEATS), services.signal);
    reply = await acquire(services, request);
  }
  for (const holder of reply.tookOver) log.warn(fieldsOf(holder), "lock_taken_over");
  return { kind: "held", held: keepAlive(services, reply.run) };
}

/** Asks for the lock; a second time when those in the way are found to be dead. */
async function acquire({ db }: Services, request: Omit<LockRequest, "dead">): Promise<LockReply> {
  const reply = await acquireLock(db, { ...request, dead: [] });
  if (reply.kind === "held") return reply;
  const ended = await Promise.all(
    reply.holders.map(async (holder) => ((await hasEnded(holder, request.process)) ? [holder] : [])),
  );
  const dead = ended.flat();
  return dead.length < reply.holders.length ? reply : acquireLock(db, { ...request, dead });
}

function tellWaiting({ log, progress }: Services, job: string, holders: readonly LockHolder[]): void {
  for (const holder of holders) log.info(fieldsOf(holder), "waiting_for_lock");
  progress.note(job, waitingText(job, holders));
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

/** Gives signs of life until the job is released or lost. */
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
        // Whether the lock is lost will be seen when the warehouse is back: nothing commits without it.
        log.warn({ job: run.job, code: codeOf(error) }, "heartbeat_failed");
        pauseMs = everyMs / HEARTBEATS;
      }
    }
    if (released.signal.aborted) return;
    log.warn({ job: run.job, shard: run.shard, epoch: run.epoch }, "lock_lost");
    lost.abort(
      new LockLostError(
        `${run.job}: another process has taken the job over after this one gave no sign of life for too long. It sends ` +
          "and writes nothing more; what it had committed before is kept.",
      ),
    );
  }

  // It ends only by its release, whose abort makes the sleep reject.
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
