import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Ports below those that systems give to outgoing connections (32768 on Linux), so that ours stays free. */
const FIRST_PORT = 15_432;
const PORT_COUNT = 1_000;

/** The wanted port if it is free on 127.0.0.1, else a free one from a place in the range that depends on the folder. */
export async function chooseFreePort(wanted: number | null, folder: string): Promise<number> {
  const offset = createHash("sha256").update(folder).digest().readUInt16BE(0);
  const range = Array.from({ length: PORT_COUNT }, (_, i) => FIRST_PORT + ((offset + i) % PORT_COUNT));
  for (const port of wanted === null ? range : [wanted, ...range]) {
    if ((await listenOn(port)) !== null) return port;
  }
  return (await listenOn(0)) ?? FIRST_PORT;
}

/** Listens for a moment; the port it got, or null if that is taken. */
async function listenOn(port: number): Promise<number | null> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : null;
  } catch {
    return null;
  } finally {
    if (server.listening) {
      server.close();
      await once(server, "close");
    }
  }
}
