import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A service that accepts one key only, which can be changed. */
export interface KeyGate {
  readonly url: string;
  /** Accepted and refused requests. */
  readonly passed: number;
  readonly refused: number;
  /** Changes the valid key after this many accepted requests; `rotate` is awaited first. */
  accept(key: string, afterPassed: number, rotate?: () => Promise<void>): void;
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
  let next: { key: string; afterPassed: number; rotate: () => Promise<void> } | null = null;
  let [passed, refused] = [0, 0];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readAll(request);
    if (next && passed >= next.afterPassed) {
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
    passed += 1;
    const headers = { "x-api-key": "any", "content-type": "application/json" };
    const reply = await fetch(origin + (request.url ?? ""), { method: "POST", headers, body });
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
    get passed() {
      return passed;
    },
    get refused() {
      return refused;
    },
    accept(key, afterPassed, rotate = async () => {}) {
      next = { key, afterPassed, rotate };
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
