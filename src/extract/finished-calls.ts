import type { Entry } from "./batch.ts";
import type { FinishedCall } from "./finished-call.ts";
import type { HttpResponse } from "./http-client.ts";
import type { KeptAnswer } from "./keeper.ts";

/** Bodies that may wait in memory to be settled. */
export const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/** Calls that ended and wait to be settled, in the order of their end. */
export interface FinishedCalls<T> {
  readonly size: number;
  /** Bodies of theirs that are in memory. */
  readonly bytes: number;
  /** Nothing but answers that are kept on disk. */
  readonly areAllKept: boolean;
  /** @param kept its answer on disk; null when there is none. */
  push(call: FinishedCall<T>, kept: KeptAnswer<T> | null): void;
  /** Takes the first; null when none waits. Rejects when its answer can't be read from disk any more. */
  shift(): Promise<FinishedCall<T> | null>;
  /** Begins to bring the next one's answer into memory. */
  prepareNext(use: (call: FinishedCall<T>) => void): void;
}

interface Waiting<T> {
  /** Bytes of the body in memory. */
  readonly bytes: number;
  readonly isKept: boolean;
  call(): Promise<FinishedCall<T>>;
}

function bytesOf({ reply }: FinishedCall<unknown>): number {
  return reply.kind === "response" ? reply.body.length : 0;
}

/** A call without what its kept answer holds: its body and its records. */
function drop<T>(call: FinishedCall<T>, reply: HttpResponse, kept: KeptAnswer<T>): Waiting<T> {
  const { batch, reply: _reply, ...rest } = call;
  const { entries, ...batchRest } = batch;
  const { body: _body, ...replyRest } = reply;
  const histories = entries.map(({ item: _item, ...history }) => history);
  let recalled: Promise<FinishedCall<T>> | null = null;
  async function recall(): Promise<FinishedCall<T>> {
    const { items, body } = await kept.recall();
    const entries = items.flatMap((item, i): Entry<T>[] => {
      const history = histories[i];
      return history ? [{ ...history, item }] : [];
    });
    return { ...rest, batch: { ...batchRest, entries }, reply: { ...replyRest, body } };
  }
  return { bytes: 0, isKept: true, call: () => (recalled ??= recall()) };
}

/** None yet. */
export function createFinishedCalls<T>(): FinishedCalls<T> {
  const waiting: Waiting<T>[] = [];
  let bytes = 0;

  return {
    get size() {
      return waiting.length;
    },
    get bytes() {
      return bytes;
    },
    get areAllKept() {
      return waiting.every(({ isKept }) => isKept);
    },
    push(call, kept) {
      const own = bytesOf(call);
      if (kept && call.reply.kind === "response" && bytes + own > MAX_WAITING_BYTES) {
        waiting.push(drop(call, call.reply, kept));
        return;
      }
      bytes += own;
      waiting.push({ bytes: own, isKept: kept !== null, call: () => Promise.resolve(call) });
    },
    async shift() {
      const first = waiting.shift();
      if (!first) return null;
      bytes -= first.bytes;
      return await first.call();
    },
    prepareNext(use) {
      const [next] = waiting;
      // What fails here fails again when the call is taken.
      next?.call().then(use, () => {});
    },
  };
}
