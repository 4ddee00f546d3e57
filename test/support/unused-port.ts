import { once } from "node:events";
import { createServer } from "node:net";

/** Ports given to this process. */
const given = new Set<number>();

/**
 * A port without a listener that no other process takes later: outside the ports of outgoing connections, those chosen for
 * port 0, and those of embedded databases.
 */
export async function unusedPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    if (given.has(port)) continue;
    given.add(port);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch {
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}
