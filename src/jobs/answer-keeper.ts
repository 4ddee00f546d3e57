import { StopJobError } from "../errors.ts";
import type { KeptAnswer, Keeper } from "../extract/keeper.ts";
import type { LookupRecord } from "../load/warehouse.ts";
import type { Spool, SpooledCall } from "../spool/spool.ts";
import { type Asked, describeCall, readKeptCall } from "./kept-call.ts";

/** Keeps the answers of one job's run in the spool until their rows are committed. */
export interface AnswerKeeper extends Keeper<LookupRecord> {
  /** Lets go of calls whose outcome is committed; of others it knows nothing. */
  release(callIds: readonly string[]): Promise<void>;
  /** Whether a call's answer is on disk. */
  has(callId: string): boolean;
}

/** What a keeper works with. */
export interface KeeperOptions {
  readonly spool: Spool;
  readonly asked: Asked;
  /** Whether sending may go on while answers wait to be loaded. */
  readonly mayRunAhead: () => boolean;
}

/** Keeps nothing yet. */
export function createAnswerKeeper({ spool, asked, mayRunAhead }: KeeperOptions): AnswerKeeper {
  const kept = new Map<string, SpooledCall>();

  async function recall(call: SpooledCall): ReturnType<KeptAnswer<LookupRecord>["recall"]> {
    const content = await spool.read(call);
    const description = content.kind === "whole" ? readKeptCall(content.header) : null;
    if (content.kind === "whole" && description) return { items: description.records, body: content.body };
    throw new StopJobError(
      "spool_damaged",
      `A received answer can't be read from ${spool.folder} any more: is the disk sound, and does nobody else ` +
        "change files there? Its records stay due; the others are kept.",
    );
  }

  return {
    async keep(call) {
      const spooled = await spool.write({
        callId: call.callId,
        receivedAtMs: call.startedAtMs + call.milliseconds,
        header: describeCall(asked, call),
        body: call.reply.body,
      });
      kept.set(spooled.callId, spooled);
      return { recall: () => recall(spooled) };
    },
    hasRoom: (callsUnderWay) => spool.hasRoom(callsUnderWay),
    mayRunAhead,
    onChange(listener) {
      spool.onRemoval(listener);
    },
    async release(callIds) {
      for (const callId of callIds) {
        const call = kept.get(callId);
        kept.delete(callId);
        if (call) await spool.remove(call);
      }
    },
    has: (callId) => kept.has(callId),
  };
}
