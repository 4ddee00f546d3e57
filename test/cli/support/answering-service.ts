import type { ServerResponse } from "node:http";
import { startServer } from "../../support/http-proxy.ts";
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
  const { url, close } = await startServer((request, response, body) => {
    // The free call for the organization.
    if (request.method === "GET") return response.writeHead(404).end("{}");
    // Request body of the program.
    const { records } = JSON.parse(body.toString()) as { records: Sent[] };
    service.records += records.length;
    service.calls += 1;
    return reply(records, response);
  });
  atEnd(close);
  service.url = url;
  return service;
}
