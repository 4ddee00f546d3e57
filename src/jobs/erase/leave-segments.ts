import { membershipsOf } from "../../load/erasure/erase-people.ts";
import { noteCalls } from "../../load/ledger/record-attempts.ts";
import { randomUUID } from "node:crypto";
import { callFree } from "../../extract/free-call.ts";
import { changeCall } from "../../extract/segment-change.ts";
import type { LedgerEntry } from "../../load/ledger/books.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { JobServices } from "../services.ts";

/** The name under which the ledger has calls that no job makes. */
const ASKER = "erase";

/** What leaving segments works with. */
export type LeaveServices = Pick<
  JobServices,
  "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random"
>;

/** What came of it. */
export interface LeftSegments {
  /** Segments that the service was asked about. */
  readonly segments: number;
  /** Members that it has removed. */
  readonly removed: number;
}

/**
 * Removes people from all segments of the service in which the warehouse has seen them, or put them. Costs nothing, and does
 * no harm when it is done twice; a segment that is gone is none to leave.
 */
export async function leaveSegments(services: LeaveServices, pids: readonly string[]): Promise<LeftSegments> {
  const { db, log } = services;
  const { remove } = segmentEndpoints;
  const memberships = Map.groupBy(await membershipsOf(db, pids), ({ segmentId }) => segmentId);
  const asker = { runId: randomUUID(), job: ASKER };
  let removed = 0;
  for (const [segmentId, members] of memberships) {
    const servicePids = members.map(({ servicePid }) => servicePid);
    const attempts: LedgerEntry[] = [];
    const asked = callFree(
      { ...services, onAttempt: (attempt) => void attempts.push(attempt) },
      changeCall(remove, segmentId, servicePids, new DriftLog(remove.name)),
    );
    // What failed stands in the ledger too.
    await Promise.allSettled([asked]);
    await noteCalls(db, asker, attempts);
    const reply = await asked;
    if (reply.kind === "answer") removed += reply.value.changed ?? 0;
    log.info({ segment_id: segmentId, known: reply.kind === "answer" }, "segment_left");
  }
  return { segments: memberships.size, removed };
}
