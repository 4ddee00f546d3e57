import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { atEnd } from "./at-end.ts";

/** A record as the program sends it. */
export interface Sent {
  readonly record_id: string;
}

/** Starts a service whose every billed call is answered by `reply`; counts calls and records. */
export async function startService(
  reply: (records: readonly Sent[], response: ServerResponse) => void | Promise<void>,
) {
  const service = { records: 0, calls: 0, url: "" };
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    response.on("error", () => {});
    request.on("end", () => {
      // The free call for the organization.
      if (request.method === "GET") {
        response.writeHead(404).end("{}");
        return;
      }
      // Request body of the program.
      const { records } = JSON.parse(Buffer.concat(pieces).toString("utf8")) as { records: Sent[] };
      service.records += records.length;
      service.calls += 1;
      void reply(records, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  // It listens on TCP.
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return service;
}
