import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Server } from "node:net";
import { onTestFinished } from "vitest";
import type { Certificate } from "./self-signed.ts";

/** A proxy that tunnels every host to a port of this machine. */
export interface TunnelProxy {
  readonly url: string;
  /** Targets and credentials of the requests to connect: `POST https://host:443` for anything else. */
  readonly asked: { readonly target: string; readonly credentials: string | undefined }[];
}

/** Listens on a free port for the rest of the test; returns the port. */
async function listen(server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  // Listening on TCP: the address is an object.
  return (server.address() as AddressInfo).port;
}

/** Starts a proxy for the rest of the test; all hosts are `port` of this machine, or refused with a status. */
export async function startProxy(port: number, status = 200): Promise<TunnelProxy> {
  const asked: TunnelProxy["asked"][number][] = [];
  const server = createServer((request, response) => {
    asked.push({ target: `${request.method} ${request.url}`, credentials: undefined });
    response.writeHead(501).end();
  });
  server.on("connect", (request: IncomingMessage, client) => {
    client.on("error", () => {});
    asked.push({ target: request.url ?? "", credentials: request.headers["proxy-authorization"] });
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const target = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      target.pipe(client).pipe(target);
    });
    target.on("error", () => client.destroy());
    client.on("close", () => target.destroy());
  });
  return { url: `http://127.0.0.1:${await listen(server)}`, asked };
}

/** Starts an https server for the rest of the test; it answers every request with `{}`. */
export async function startSecureServer(certificate: Certificate) {
  const paths: string[] = [];
  const server = createTlsServer(certificate, (request, response) => {
    paths.push(`${request.method} ${request.url}`);
    request.resume().on("end", () => response.end("{}"));
  });
  return { port: await listen(server), paths };
}
