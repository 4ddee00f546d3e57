import { type Batch, itemsOf, type LookupItem, possiblyBilledCalls } from "../../src/extract/batches.ts";
import type { HttpReply } from "../../src/extract/http-client.ts";
import { attemptsOf, type EndedCall } from "../../src/extract/send-call.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";

/** Response with a JSON body. */
export function response(status: number, body: object = {}): HttpReply {
  return {
    kind: "response",
    status,
    retryAfter: null,
    date: null,
    location: null,
    contentEncoding: null,
    body: Buffer.from(JSON.stringify(body)),
    release() {},
    keyVersion: 1,
  };
}

/** Failure to receive a response. */
export function failure(sent: boolean, code: string, receivedBytes = 0): HttpReply {
  const status = receivedBytes > 0 ? 200 : null;
  return { kind: "failure", sent, status, receivedBytes, code, message: code };
}

/** Finished call of a batch whose records count it. */
export function endedCall(batch: Batch<LookupItem>, reply: HttpReply): EndedCall<LookupItem> {
  return {
    endpoint: enrichEndpoint.name,
    callId: "9d2c1b8e-5d9c-4d7e-8a53-1c2b3a4d5e6f",
    attempt: attemptsOf(batch),
    startedAtMs: 0,
    milliseconds: 1,
    batch,
    items: itemsOf(batch.entries),
    possiblyBilledBefore: batch.entries.map(possiblyBilledCalls),
    reply,
    bodyBytes: reply.kind === "response" ? reply.body.length : reply.receivedBytes,
    stopError: null,
  };
}
