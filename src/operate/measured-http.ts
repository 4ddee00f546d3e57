import type { HttpClient, HttpReply } from "../extract/http-client.ts";

/** One attempt of a call, without its content. */
export interface Attempt {
  /** Method and path, ids in it replaced. */
  readonly endpoint: string;
  /** HTTP status, or an error code (`timeout`, `connect`, …). */
  readonly status: string;
  readonly seconds: number;
}

/** Receives metrics of calls. */
export interface CallObserver {
  began(): void;
  ended(attempt: Attempt): void;
}

/** Wraps the client; reports every attempt. */
export function measureHttp(
  http: HttpClient,
  observer: CallObserver,
  nowMs = () => performance.now(),
): HttpClient {
  return {
    origin: http.origin,
    memory: http.memory,
    async request(request) {
      const startedMs = nowMs();
      observer.began();
      let status = "error";
      try {
        const reply = await http.request(request);
        status = statusOf(reply);
        return reply;
      } finally {
        const endpoint = `${request.method} ${pathnameOf(request.path)}`;
        observer.ended({ endpoint, status, seconds: (nowMs() - startedMs) / 1000 });
      }
    },
    renewKey: (version, asUser) => http.renewKey(version, asUser),
    close: () => http.close(),
  };
}

function statusOf(reply: HttpReply): string {
  return reply.kind === "response" ? String(reply.status) : reply.code.toLowerCase();
}

/** Path without its query, with `:id` for every variable part. */
function pathnameOf(path: string): string {
  const [pathname = ""] = path.split("?");
  return pathname
    .split("/")
    .map((part) => (/^(?:|v\d|[a-z]+(?:[_-][a-z]+)*)$/.test(part) ? part : ":id"))
    .join("/");
}
