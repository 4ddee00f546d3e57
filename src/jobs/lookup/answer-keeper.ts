import { StopJobError } from "../../errors.ts";
import type { KeptAnswer, Keeper } from "../../extract/keeper.ts";
import type { LookupRecord } from "../../load/lookup.ts";
import type { Spool, SpooledCall } from "../../spool/spool.ts";
import { keptText } from "./kept-text.ts";
import { type Asked, headerOf, readHeader } from "./kept-header.ts";
import type { Outage } from "../outage.ts";

/** Keeps the answers of one job's run in the spool until their rows are committed. */
export interface AnswerKeeper extends Keeper<LookupRecord> {
  /** Lets go of calls whose outcome is committed; of others it knows nothing. */
  release(callIds: readonly string[]): Promise<void>;
  /** Whether a call's answer is on disk. */
  has(callId: string): boolean;
  /** A sentence about the answers that are on disk; null when there are none. */
  tellKept(): string | null;
}

/** What a keeper works with. */
export interface KeeperOptions {
  readonly spool: Spool;
  readonly asked: Asked;
  readonly outage: Outage;
}

/** Keeps nothing yet. */
export function createAnswerKeeper({ spool, asked, outage }: KeeperOptions): AnswerKeeper {
  const kept = new Map<string, SpooledCall & { readonly records: number }>();

  async function recall(call: SpooledCall): ReturnType<KeptAnswer<LookupRecord>["recall"]> {
    const content = await spool.read(call);
    const description = content.kind === "whole" ? readHeader(content.header) : null;
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
        header: headerOf(asked, call),
        body: call.reply.body,
      });
      kept.set(spooled.callId, { ...spooled, records: call.batch.entries.length });
      return { recall: () => recall(spooled) };
    },
    hasRoom: (callsUnderWay) => spool.hasRoom(callsUnderWay),
    // A warehouse that only is slow must not let answers pile up that a lost disk would take with it.
    mayRunAhead: () => outage.isOn,
    onChange(listener) {
      spool.onRemoval(listener);
      outage.onBegin(listener);
    },
    async release(callIds) {
      for (const callId of callIds) {
        const call = kept.get(callId);
        kept.delete(callId);
        if (call) await spool.remove(call);
      }
    },
    has: (callId) => kept.has(callId),
    tellKept() {
      if (kept.size === 0) return null;
      const records = [...kept.values()].reduce((sum, call) => sum + call.records, 0);
      return keptText(asked.run.job, spool.folder, { calls: kept.size, records });
    },
  };
}
