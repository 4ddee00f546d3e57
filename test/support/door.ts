import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/**
 * Starts a TCP proxy in front of the database, open or shut. With `cutsAtCommit` it cuts one connection after the server's COMMIT and before
 * its reply.
 */
export async function openDoor(
  databaseUrl: string,
  options: {
    readonly isOpen: boolean;
    readonly cutsAtCommit?: boolean;
    /** Hook of a concurrent test's own context. */
    readonly after?: typeof onTestFinished;
  },
) {
  const target = new URL(databaseUrl);
  const state = { cuts: 0, isOpen: options.isOpen, cutsNext: options.cutsAtCommit === true };
  const sockets = new Set<Socket>();
  const silent = new Set<Socket>();
  const cutAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    if (!state.isOpen) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(target.port), target.hostname);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        if (!silent.has(socket)) other.destroy();
      });
    }
    let isCommitting = false;
    client.on("data", (bytes) => {
      if (silent.has(client)) return;
      if (state.cutsNext && bytes.includes("COMMIT\0")) {
        state.cutsNext = false;
        isCommitting = true;
      }
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      if (silent.has(upstream)) return;
      if (!isCommitting) {
        client.write(bytes);
        return;
      }
      state.cuts += 1;
      client.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  (options.after ?? onTestFinished)(() => {
    cutAll();
    server.close();
  });
  const address = server.address();
  const url = new URL(databaseUrl);
  url.hostname = "127.0.0.1";
  url.port = String(typeof address === "object" ? address?.port : "");
  return {
    url: url.href,
    /** Number of cuts between a COMMIT and its reply. */
    cuts: () => state.cuts,
    /** Cuts the next connection that commits, after the server's COMMIT and before its reply. */
    cutAtCommit: () => {
      state.cutsNext = true;
    },
    open: () => {
      state.isOpen = true;
    },
    /** Stops forwarding on open connections without closing them; new ones work. */
    silence: () => {
      for (const socket of sockets) silent.add(socket);
    },
    /** Cuts open connections and refuses new ones. */
    shut() {
      state.isOpen = false;
      cutAll();
    },
  };
}
