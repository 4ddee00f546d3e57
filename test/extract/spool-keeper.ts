import { systemClock } from "../../src/clock.ts";
import type { Keeper } from "../../src/extract/keeper.ts";
import type { LookupItem } from "../../src/extract/lookup.ts";
import { type KeptCall, settleKept } from "../../src/extract/settle-kept.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import { openSpool, type Spool, type SpooledCall } from "../../src/spool/spool.ts";
import { makeRoot, OWNER } from "../spool/spool-folder.ts";

/** A keeper over a spool, which lets the test look into it and load from it. */
export interface SpoolKeeper extends Keeper<LookupItem> {
  readonly spool: Spool;
  /** Calls kept so far, in order. */
  readonly kept: SpooledCall[];
  /** Reads a call back as the next run would. */
  settle(callId: string): ReturnType<typeof settleKept<LookupItem, JsonObject>>;
  /** Takes a call out, as a commit does. */
  release(callId: string): Promise<void>;
  /** Whether calls may go on while answers wait. */
  runsAhead: boolean;
}

/** Keeps answers in a spool of its own. */
export async function openSpoolKeeper(
  options: { readonly maxBytes?: number; readonly runsAhead?: boolean; readonly root?: string } = {},
): Promise<SpoolKeeper> {
  const root = options.root ?? (await makeRoot());
  const spool = await openSpool({ root, owner: OWNER, maxBytes: options.maxBytes ?? 1e9 });
  const kept: SpooledCall[] = [];
  const keeper: SpoolKeeper = {
    spool,
    kept,
    runsAhead: options.runsAhead ?? false,
    async keep({ callId, attempt, startedAtMs, milliseconds, batch, reply: { body, contentEncoding } }) {
      const items = batch.entries.map(({ item }) => item);
      const ambiguousCalls = batch.entries.map((entry) => entry.ambiguousCalls);
      const header = { callId, attempt, startedAtMs, milliseconds, contentEncoding, items, ambiguousCalls };
      const call = await spool.write({ callId, receivedAtMs: startedAtMs, header, body });
      kept.push(call);
      return {
        async recall() {
          const content = await spool.read(call);
          if (content.kind !== "whole") throw new Error(content.kind);
          // Written just above.
          const { items } = content.header as { items: readonly LookupItem[] };
          return { items, body: content.body };
        },
      };
    },
    hasRoom: (callsUnderWay) => spool.hasRoom(callsUnderWay),
    mayRunAhead: () => keeper.runsAhead,
    onChange: (listener) => spool.onRemoval(listener),
    async settle(callId) {
      const call = kept.find((call) => call.callId === callId);
      const content = call ? await spool.read(call) : null;
      if (content?.kind !== "whole") throw new Error(`${callId} is not in the spool`);
      // Written above.
      const header = content.header as Omit<KeptCall<LookupItem>, "body">;
      const reading = { endpoint: enrichEndpoint, read: (result: JsonObject) => result, clock: systemClock };
      return await settleKept({ ...header, body: content.body }, reading);
    },
    async release(callId) {
      const call = kept.find((call) => call.callId === callId);
      if (call) await spool.remove(call);
    },
  };
  return keeper;
}
