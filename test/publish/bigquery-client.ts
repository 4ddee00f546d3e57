import type { Client } from "../../src/bigquery/client.ts";

/** A client whose requests are answered by a function. */
export function clientOf(send: (request: object) => object, options: Partial<Client> = {}): Client {
  return {
    project: "p",
    billingProject: "p",
    labels: {},
    signal: undefined,
    jobDeadlineMs: 60_000,
    uploadUrl: "",
    fetch: () => Promise.reject(new Error("no uploads")),
    // The answers have the requested types.
    send: async <Answer>(request: object) => send(request) as Answer,
    ...options,
  };
}
