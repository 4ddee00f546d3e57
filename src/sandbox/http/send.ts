import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const compress = promisify(gzip);

/** Bodies below are not worth compressing. */
const MIN_GZIP_BYTES = 1024;

/** What happens to an answer on its way. */
export interface Wire {
  /** `none` arrives whole; `cut_body` ends in the middle; `truncated` is complete HTTP with half the JSON; `lost` never arrives. */
  readonly damage: "none" | "cut_body" | "truncated" | "lost";
  /** Waits between the headers and the body. */
  readonly bodyDelayMs: number;
}

/** An answer that arrives whole. */
export const SOUND_WIRE: Wire = { damage: "none", bodyDelayMs: 0 };

/** The bytes of texts put one after the other, without building one long string. */
export function bytesOf(texts: readonly string[]): Buffer {
  let length = 0;
  for (const text of texts) length += Buffer.byteLength(text);
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const text of texts) at += bytes.write(text, at);
  return bytes;
}

/** Sends a body, compressed where the client takes it; damaged as the wire says. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  answer: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Buffer;
  },
  wire: Wire,
): Promise<void> {
  if (wire.damage === "lost") {
    response.socket?.resetAndDestroy();
    return;
  }
  let body = wire.damage === "truncated" ? answer.body.subarray(0, answer.body.length >> 1) : answer.body;
  const headers: Record<string, string> = { ...answer.headers };
  const takesGzip = /\bgzip\b/i.test(request.headers["accept-encoding"] ?? "");
  if (takesGzip && body.length >= MIN_GZIP_BYTES) {
    body = await compress(body, { level: 1 });
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
