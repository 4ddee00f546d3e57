import type { HttpClient, HttpReply } from "../extract/http-client.ts";

/** One attempt of a call, without anything that was in it. */
export interface Attempt {
  /** Method and path, ids in it replaced. */
  readonly endpoint: string;
  /** HTTP status, or the code of what came instead (`timeout`, `connect`, …). */
  readonly status: string;
  readonly seconds: number;
}

/** What is told of calls. */
export interface CallObserver {
  began(): void;
  ended(attempt: Attempt): void;
}

/** The client, telling of every attempt. */
export function measureHttp(
  http: HttpClient,
  observer: CallObserver,
  nowMs = () => performance.now(),
): HttpClient {
  return {
    origin: http.origin,
    async request(request) {
      const startedMs = nowMs();
      observer.began();
      let status = "error";
      try {
        const reply = await http.request(request);
        status = statusOf(reply);
        return reply;
      } finally {
        const endpoint = `${request.method} ${placeOf(request.path)}`;
        observer.ended({ endpoint, status, seconds: (nowMs() - startedMs) / 1000 });
      }
    },
    renewKey: (version) => http.renewKey(version),
    close: () => http.close(),
  };
}

function statusOf(reply: HttpReply): string {
  return reply.kind === "response" ? String(reply.status) : reply.code.toLowerCase();
}

/** The path without its query, and with `:id` for whatever is no fixed word of it. */
function placeOf(path: string): string {
  const [place = ""] = path.split("?");
  return place
    .split("/")
    .map((part) => (/^(?:|v\d|[a-z]+(?:[_-][a-z]+)*)$/.test(part) ? part : ":id"))
    .join("/");
}
