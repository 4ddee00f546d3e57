import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

/** Starts an HTTP server, which ends with the test; returns its address. */
export async function serve(
  listener: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    text(request).then(
      (body) => listener(request, response, body),
      () => response.destroy(),
    );
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // A TCP server's address is an object.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
