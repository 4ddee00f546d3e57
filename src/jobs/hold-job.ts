import { acquireLock, releaseLock, renewLock } from "../load/runs/job-lock.ts";
import { codeOf, LockLostError } from "../errors.ts";
import type { LockHolder, LockReply, LockRequest, RunRef } from "../load/lookup.ts";
import { lockedText, waitingText } from "./lock-text.ts";
import { describeThisProcess, hasEnded } from "./runner-process.ts";
import type { JobServices } from "./services.ts";

/** A job whose lock this process holds. */
export interface HeldJob {
  readonly run: RunRef;
  /** Aborted when the lock is lost, with a LockLostError, or when the user wants to stop. */
  readonly signal: AbortSignal;
  /** Releases the lock; call it at every end. */
  readonly release: () => Promise<void>;
}

/** A held job, or the reason it isn't held. */
export type Hold =
  | { readonly kind: "held"; readonly held: HeldJob }
  | {
      readonly kind: "refused";
      /** For the user who wanted to run it. */
      readonly message: string;
      readonly holders: readonly LockHolder[];
    };

type Services = Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">;

/** Heartbeats in the life of a lock: three may fail before it expires. */
const HEARTBEATS = 4;
/** Pause between attempts to get a held job. */
const POLL_MS = 2_000;

/**
 * Takes the lock of a job and keeps it by heartbeats until it is released. Takes over expired holders, and those whose
 * process is known to have ended.
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

/** Requests the lock; a second time if the holders are found dead. */
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

/** Sends heartbeats until the job is released or lost. */
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
        // A lost lock shows when the warehouse is back: nothing commits without it.
        log.warn({ job: run.job, code: codeOf(error) }, "heartbeat_failed");
        pauseMs = everyMs / HEARTBEATS;
      }
    }
    if (released.signal.aborted) return;
    log.warn({ job: run.job, shard: run.shard, epoch: run.epoch }, "lock_lost");
    lost.abort(
      new LockLostError(
        `${run.job}: another process took the job over, because this one sent no heartbeat for too long. This process sends ` +
          "and writes nothing more; committed work is kept.",
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
