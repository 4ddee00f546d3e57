import type { IncomingMessage, ServerResponse } from "node:http";
import { onTestFinished } from "vitest";
import { startServer } from "./http-proxy.ts";

/** Starts an HTTP server, which ends with the test; returns its address. */
export async function serve(
  listener: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<string> {
  const server = await startServer((request, response, body) => listener(request, response, String(body)));
  onTestFinished(() => server.close());
  return server.url;
}
