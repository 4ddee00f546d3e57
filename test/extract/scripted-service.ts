import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "../../src/clock.ts";
import { startServer, type TestServer } from "../support/http-proxy.ts";

/** A request as received by the service. */
interface SeenRequest {
  /** 0-based, in the order of arrival. */
  readonly index: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Readonly<Record<string, unknown>>;
}

/** Response to one request. */
export type Reply = (request: SeenRequest, response: ServerResponse) => void | Promise<void>;

/** A real HTTP server with scripted responses. */
export interface ScriptedService extends TestServer {
  readonly requests: readonly SeenRequest[];
}

/** Starts a server that answers every request by `reply`. */
export async function startService(reply: Reply): Promise<ScriptedService> {
  const requests: SeenRequest[] = [];
  const server = await startServer(async ({ method = "", url = "", headers }, response, bytes) => {
    const body = bytes.length === 0 ? {} : JSON.parse(bytes.toString("utf8"));
    const seen = { index: requests.length, method, path: url, headers, body };
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
