import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const compress = promisify(gzip);

/** Bodies below are not worth compressing. */
const MIN_GZIP_BYTES = 1024;

/** Output pieces of this size save trips to zlib's threads. */
const GZIP_CHUNK_BYTES = 512 * 1024;

/** Damage and delay of an answer in transit. */
export interface Wire {
  /** `cut_body` ends in the middle; `truncated` is complete HTTP with half the JSON; `lost` never arrives. */
  readonly damage: "none" | "cut_body" | "truncated" | "lost";
  /** Waits between the headers and the body. */
  readonly bodyDelayMs: number;
}

/** Complete answer before any damage. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** True if the body may be compressed for clients that accept gzip. */
  readonly compresses: boolean;
}

/** Delivers the answer unchanged. */
export const SOUND_WIRE: Wire = { damage: "none", bodyDelayMs: 0 };

/** Sends an answer, compressed if the client accepts it, and applies the damage of `wire`. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  wire: Wire,
): Promise<void> {
  if (wire.damage === "lost") {
    response.socket?.resetAndDestroy();
    return;
  }
  let body = wire.damage === "truncated" ? answer.body.subarray(0, answer.body.length >> 1) : answer.body;
  const headers: Record<string, string> = { ...answer.headers };
  const takesGzip = answer.compresses && /\bgzip\b/i.test(request.headers["accept-encoding"] ?? "");
  if (takesGzip && body.length >= MIN_GZIP_BYTES) {
    body = await compress(body, { level: 1, chunkSize: GZIP_CHUNK_BYTES });
    headers["content-encoding"] = "gzip";
  }
  headers["content-length"] = String(body.length);
  response.writeHead(answer.status, headers);
  if (wire.bodyDelayMs > 0) {
    response.flushHeaders();
    await delay(wire.bodyDelayMs, undefined, { ref: false });
  }
  if (wire.damage === "cut_body") {
    response.write(body.subarray(0, body.length >> 1), () => response.destroy());
    return;
  }
  response.end(body);
}
