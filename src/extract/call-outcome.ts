import type { Clock } from "../clock.ts";
import { type ErrorBody, readErrorBody } from "../schemas/error-body.ts";
import { decompress, MAX_ERROR_BYTES, readJson } from "./answer-body.ts";
import type { CallReport } from "./call-report.ts";
import type { HttpReply, HttpResponse } from "./http-client.ts";
import type { CallOutcome, Decision } from "./retry.ts";
import { parseRetryAfter } from "./retry-after.ts";

/** Outcome of a call without its results. */
export interface UnderstoodReply {
  readonly outcome: CallOutcome;
  readonly error: ErrorBody;
  /** Status and code, for messages. */
  readonly cause: string;
}

const NO_ERROR: ErrorBody = readErrorBody(undefined);

/** True for a complete 200 response, which is billed. */
export function isAnswer(reply: HttpReply): reply is HttpResponse {
  return reply.kind === "response" && reply.status === 200;
}

/** Answer with results. */
export const answered: UnderstoodReply = { outcome: { kind: "answer" }, error: NO_ERROR, cause: "200" };

/** Status 200 without usable results. */
export function lostAnswer(reason: string): UnderstoodReply {
  return { outcome: { kind: "lost" }, error: NO_ERROR, cause: `200 ${reason}` };
}

/** Interprets a reply other than 200. */
export async function understandReply(reply: HttpReply, clock: Clock): Promise<UnderstoodReply> {
  if (reply.kind === "failure") {
    return { outcome: { kind: reply.sent ? "lost" : "not_sent" }, error: NO_ERROR, cause: reply.code };
  }
  const body = await decompress(reply.body, reply.contentEncoding, MAX_ERROR_BYTES);
  const error = readErrorBody(body.kind === "plain" ? readJson(body.bytes) : undefined);
  const retryAfterMs = parseRetryAfter(reply.retryAfter, clock.now());
  return {
    outcome: { kind: "status", status: reply.status, retryAfterMs },
    error,
    cause: error.code === null ? String(reply.status) : `${reply.status} ${error.code}`,
  };
}

/** Converts an outcome for the limiter. */
export function reportOf(
  outcome: CallOutcome,
  call: { readonly startedAtMs: number; readonly reply: HttpReply },
  decision: Pick<Decision, "action"> & { readonly afterMs?: number },
): CallReport {
  if (outcome.kind === "answer") return { kind: "answered" };
  if (outcome.kind === "not_sent") {
    return { kind: "not_sent", code: call.reply.kind === "failure" ? call.reply.code : "" };
  }
  if (outcome.kind === "lost") return { kind: "other" };
  if (outcome.status === 429) {
    return { kind: "refused", startedAtMs: call.startedAtMs, afterMs: decision.afterMs ?? 0 };
  }
  if (outcome.status === 503) return { kind: "unavailable" };
  return { kind: outcome.status >= 400 && outcome.status < 500 ? "declined" : "other" };
}
