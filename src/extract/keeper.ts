import type { Entry } from "./batch.ts";
import type { FinishedCall } from "./finished-call.ts";
import type { HttpReply, HttpResponse } from "./http-client.ts";

/** An answer of the service. */
export interface AnsweredCall<T> extends FinishedCall<T> {
  readonly reply: HttpResponse;
}

/** An answer that survives a crash. */
export interface KeptAnswer<T> {
  /** Reads it again: what came back, and what was asked for, in its order. Rejects when it is no longer whole. */
  recall(): Promise<{ readonly items: readonly T[]; readonly body: Buffer }>;
}

/** Keeps answers that cost money until they are loaded. */
export interface Keeper<T> {
  /** Awaited for every 200 answer before anything else is done with it. Rejects when the answer can't be kept. */
  keep(call: AnsweredCall<T>): Promise<KeptAnswer<T>>;
  /** Whether the answer of one more call would find room beside those of so many under way. */
  hasRoom(callsUnderWay: number): boolean;
  /** Whether calls may go on while many answers wait to be settled; those then wait on disk, not in memory. */
  mayRunAhead(): boolean;
  /** Calls back when one of both may have become true. */
  onChange(listener: () => void): void;
}

/** What happened to a record before, without the record. */
export type EntryHistory = Omit<Entry<unknown>, "item">;

/** True for a whole answer, which the service has charged for. */
export function isAnswer(reply: HttpReply): reply is HttpResponse {
  return reply.kind === "response" && reply.status === 200;
}
