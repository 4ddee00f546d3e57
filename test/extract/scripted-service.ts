import type { IncomingMessage, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/clock.ts";
import { startServer, type TestServer } from "../support/http-proxy.ts";

/** A request as received by the service. */
export interface SeenRequest {
  /** 0-based, in the order of arrival. */
  readonly index: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Readonly<Record<string, unknown>>;
  /** The body's `records`, as objects; e-mail addresses as `{ email_address }`. */
  readonly records: readonly Readonly<Record<string, unknown>>[];
}

/** Response to one request. */
export type Reply = (request: SeenRequest, response: ServerResponse) => void | Promise<void>;

/** A real HTTP server with scripted responses. */
export interface ScriptedService extends TestServer {
  readonly requests: readonly SeenRequest[];
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : { email_address: value };
}

/** Starts a server that answers every request by `reply`. */
export async function startService(reply: Reply): Promise<ScriptedService> {
  const requests: SeenRequest[] = [];
  const server = await startServer(async ({ method = "", url = "", headers }, response, bytes) => {
    const body = bytes.length === 0 ? {} : asRecord(JSON.parse(bytes.toString("utf8")));
    const list = body["records"];
    const records = Array.isArray(list) ? list.map(asRecord) : [];
    const seen = { index: requests.length, method, path: url, headers, body, records };
    requests.push(seen);
    await reply(seen, response);
  });
  return { ...server, requests };
}

/** Sends a JSON body with a status. */
export function send(response: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

/** Result of one record, as a match. */
export function resultOf(record: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { ...record, is_match: true };
}

/** Envelope around results. */
export function envelope(results: readonly unknown[], requestId = "req-1"): object {
  return { api_request_id: requestId, results, request_completed_at: "2026-11-20T01:02:03.123456Z" };
}

/** Answers every record with a match, compressed like the real service. */
export function answerAll({ records }: SeenRequest, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
  response.end(gzipSync(JSON.stringify(envelope(records.map(resultOf)))));
}

/** A clock that runs faster than the machine's by a factor, so that minutes pass in a test. */
export function fastClock(factor: number): Clock {
  const start = Date.now();
  return {
    now: () => start + Math.round((performance.now() - startedAt) * factor),
    sleep: async (milliseconds, signal) => {
      await delay(milliseconds / factor, undefined, signal ? { signal } : {});
    },
  };
}

const startedAt = performance.now();
