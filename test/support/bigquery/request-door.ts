import { once } from "node:events";
import { createServer, type IncomingMessage, request as send, type ServerResponse } from "node:http";
import { atEnd } from "../../cli/support/at-end.ts";

/** When of a request something happens: before it is passed on, while it is worked on, once it is answered. */
export type Moment = "before" | "during" | "after";

/** A way to an emulator that knows what goes through it. */
export interface RequestDoor {
  readonly url: string;
  /** Method and path of every request so far. */
  readonly seen: readonly string[];
  /** Does this once, at the request of this number (0 is the next one), of which the client hears no more. */
  interrupt(at: number, moment: Moment, action: () => void): void;
}

interface Interruption {
  readonly index: number;
  readonly moment: Moment;
  readonly action: () => void;
}

/** Opens a door to `target`. What is passed on is worked on to its end, even if the client is gone. */
export async function openRequestDoor(target: string): Promise<RequestDoor> {
  const { hostname, port } = new URL(target);
  const seen: string[] = [];
  let interruption: Interruption | null = null;

  function pass(request: IncomingMessage, response: ServerResponse): void {
    const index = seen.length;
    seen.push(`${request.method} ${request.url}`);
    const isMeant = interruption?.index === index;
    const interruptAt = (moment: Moment): boolean => {
      if (!isMeant || interruption?.moment !== moment) return false;
      interruption.action();
      request.socket.destroy();
      return true;
    };
    if (interruptAt("before")) return;
    const { method, url: path, headers } = request;
    const upstream = send({ hostname, port, method, path, headers }, (answer) => {
      answer.on("error", () => {});
      if (interruptAt("after")) {
        answer.resume();
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    response.on("error", () => {});
    request.on("error", () => {});
    request.on("end", () => interruptAt("during"));
    request.pipe(upstream);
  }

  const server = createServer(pass).listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    seen,
    interrupt(at, moment, action) {
      interruption = { index: seen.length + at, moment, action };
    },
  };
}
