import { forward, startServer } from "../support/http-proxy.ts";

/** A service that accepts one key only, which can be changed. */
export interface KeyGate {
  readonly url: string;
  /** Requests refused because of their key. */
  readonly refused: number;
  /** Changes the valid key after this many answered lookups (200); `rotate` is awaited first. */
  accept(key: string, afterAnswered: number, rotate?: () => Promise<void>): void;
  close(): Promise<void>;
}

/** Proxy in front of a sandbox that accepts any key. */
export async function startKeyGate(origin: string, firstKey: string): Promise<KeyGate> {
  let accepted = firstKey;
  let next: { key: string; afterAnswered: number; rotate: () => Promise<void> } | null = null;
  let [answered, refused] = [0, 0];
  const { url, close } = await startServer(async (request, response, asked) => {
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
    const { status, headers, body } = await forward(origin, request, asked);
    if (request.method === "POST" && status === 200) answered += 1;
    response.writeHead(status, headers).end(body);
  });
  return {
    url,
    close,
    get refused() {
      return refused;
    },
    accept(key, afterAnswered, rotate = async () => {}) {
      next = { key, afterAnswered, rotate };
    },
  };
}
