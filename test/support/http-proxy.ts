import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as httpRequest,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** HTTP server of a test. */
export interface TestServer {
  readonly url: string;
  /** Number of opened connections. */
  readonly connections: () => number;
  readonly close: () => Promise<void>;
}

/** Starts a server on a free port; a handler that fails breaks its connection. */
export async function startServer(
  handle: (request: IncomingMessage, response: ServerResponse, body: Buffer) => unknown,
): Promise<TestServer> {
  let connections = 0;
  const server = createServer((request, response) => {
    response.on("error", () => {});
    buffer(request)
      .then((body) => handle(request, response, body))
      .catch(() => request.socket.destroy());
  });
  server.on("connection", () => void (connections += 1));
  await once(server.listen(0, "127.0.0.1"), "listening");
  // Listening on TCP: the address is an object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    connections: () => connections,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Response to a forwarded request. */
interface Forwarded {
  readonly status: number;
  /** Without those of the connection. */
  readonly headers: IncomingHttpHeaders;
  /** Null if it was cut. */
  readonly body: Buffer | null;
}

/** Passes a request on to another server; its response is not compressed. */
export async function forward(origin: string, request: IncomingMessage, body: Buffer): Promise<Forwarded> {
  const { host: _host, connection: _connection, ...headers } = request.headers;
  const onward = httpRequest(new URL(request.url ?? "/", origin), {
    method: request.method ?? "GET",
    headers: { ...headers, "accept-encoding": "identity" },
    agent: false,
  }).end(body);
  const [reply]: IncomingMessage[] = await once(onward, "response");
  if (!reply) throw new Error("no response");
  const {
    "transfer-encoding": _encoding,
    connection: _closed,
    "keep-alive": _alive,
    ...kept
  } = reply.headers;
  return { status: reply.statusCode ?? 500, headers: kept, body: await buffer(reply).catch(() => null) };
}
