import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { CONTROL_PREFIX, serveControl } from "./controls.ts";
import { serveRequest } from "./http/serve-request.ts";
import { keepState } from "./state-file.ts";
import { createWorld, type WorldOptions } from "./world.ts";

export { parseFaults } from "./faults/plan.ts";

/** Options of a sandbox; all have a default. */
export interface SandboxOptions extends WorldOptions {
  /** 0 (the default) takes a free port. */
  readonly port?: number;
  /** 127.0.0.1 by default: the sandbox's controls need no key. */
  readonly host?: string;
  /** File that keeps segments and usage for the next process. */
  readonly stateFile?: string;
}

export interface Sandbox {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Closes every connection, answered or not. */
  close(): Promise<void>;
}

/** Starts the service of the interface over a synthetic population; resolves when it answers. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const world = createWorld(options);
  const keeper = options.stateFile === undefined ? null : await keepState(world, options.stateFile);
  const host = options.host ?? "127.0.0.1";
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      // Says that the people are invented, so that no client takes them for real.
      response.setHeader("person-etl-sandbox", String(world.seed));
      const url = new URL(request.url ?? "/", "http://sandbox");
      const isControl = url.pathname === CONTROL_PREFIX || url.pathname.startsWith(`${CONTROL_PREFIX}/`);
      await (isControl ? serveControl : serveRequest)(world, request, response, url);
      keeper?.scheduleWrite();
    } catch {
      // The client has disconnected, or the sandbox has a bug.
      request.socket.destroy();
    }
  };
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    void serve(request, response);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(options.port ?? 0, host, resolve);
  await promise;
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : (options.port ?? 0);
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    port,
    async close() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
      await keeper?.close();
    },
  };
}
