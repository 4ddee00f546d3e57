import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/clock.ts";

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
export interface ScriptedService {
  readonly url: string;
  readonly requests: SeenRequest[];
  /** Number of opened connections. */
  readonly connections: () => number;
  readonly close: () => Promise<void>;
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : { email_address: value };
}

/** Starts a server that answers every request by `reply`. */
export async function startService(reply: Reply): Promise<ScriptedService> {
  const requests: SeenRequest[] = [];
  let connections = 0;
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readAll(request);
    const body = text === "" ? {} : asRecord(JSON.parse(text));
    const list = body["records"];
    const seen: SeenRequest = {
      index: requests.length,
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      body,
      records: Array.isArray(list) ? list.map(asRecord) : [],
    };
    requests.push(seen);
    await reply(seen, response);
  }
  const server = createServer((request, response) => {
    void handle(request, response);
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // Listening on TCP: the address is an object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    connections: () => connections,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
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
