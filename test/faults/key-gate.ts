import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A service that accepts one key only, which can be changed. */
export interface KeyGate {
  readonly url: string;
  /** Requests refused because of their key. */
  readonly refused: number;
  /** Changes the valid key after this many answered lookups (200); `rotate` is awaited first. */
  accept(key: string, afterAnswered: number, rotate?: () => Promise<void>): void;
  close(): Promise<void>;
}

async function readAll(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Proxy in front of a sandbox that accepts any key. */
export async function startKeyGate(origin: string, firstKey: string): Promise<KeyGate> {
  let accepted = firstKey;
  let next: { key: string; afterAnswered: number; rotate: () => Promise<void> } | null = null;
  let [answered, refused] = [0, 0];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readAll(request);
    if (next && answered >= next.afterAnswered) {
      const { key, rotate } = next;
      next = null;
      await rotate();
      accepted = key;
    }
    if (request.headers["x-api-key"] !== accepted) {
      refused += 1;
      response.writeHead(401, { "content-type": "application/json" }).end('{"code":"unauthorized"}');
      return;
    }
    const { method = "GET", url = "" } = request;
    const headers = { "x-api-key": "any", "content-type": "application/json" };
    const reply = await fetch(origin + url, { method, headers, ...(method === "POST" ? { body } : {}) });
    if (method === "POST" && reply.ok) answered += 1;
    response
      .writeHead(reply.status, { "content-type": "application/json" })
      .end(Buffer.from(await reply.arrayBuffer()));
  }

  const server = createServer((request, response) => {
    void serve(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // Listening on TCP: the address is an object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get refused() {
      return refused;
    },
    accept(key, afterAnswered, rotate = async () => {}) {
      next = { key, afterAnswered, rotate };
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
