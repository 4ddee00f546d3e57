import { once } from "node:events";
import { createServer, type IncomingMessage, request as send, type ServerResponse } from "node:http";
import { atEnd } from "../../cli/support/at-end.ts";

/** Moment of a request: before it is forwarded, while it is processed, after its response. */
export type Moment = "before" | "during" | "after";

/** Failure of a job that BigQuery had accepted. */
export interface JobFailure {
  /** Matches the ids of failing jobs. */
  readonly jobs: RegExp;
  /** Number of failures before a success. */
  readonly times: number;
  readonly reason: string;
  readonly message: string;
}

export type RequestDoor = Awaited<ReturnType<typeof openRequestDoor>>;

interface Interruption {
  readonly isMeant: (text: string, index: number) => boolean;
  readonly moment: Moment;
  readonly action: () => void;
}

const STATUS: Readonly<Record<string, number>> = { backendError: 503, rateLimitExceeded: 403 };

/** Opens a proxy to `target` that injects failures. Forwarded requests are completed even if the client disconnects. */
export async function openRequestDoor(target: string) {
  const { hostname, port } = new URL(target);
  const seen: string[] = [];
  const failed: string[] = [];
  let interruption: Interruption | null = null;
  let failure: JobFailure | null = null;
  let isDown = false;

  /** True if this job must fail; records it as failed. */
  function fails(jobId: string): boolean {
    if (failure === null || !failure.jobs.test(jobId) || failure.times === 0) return false;
    failure = { ...failure, times: failure.times - 1 };
    failed.push(jobId);
    return true;
  }

  /** Answers for failing jobs without the emulator; false for other requests. */
  function answerFailed(request: IncomingMessage, body: string, response: ServerResponse): boolean {
    const { method, url = "" } = request;
    const { pathname } = new URL(url, target);
    const answer = (status: number, content: object, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify(content));
      return true;
    };
    const error = { reason: failure?.reason, message: failure?.message };
    const job = (jobId: string, state: string) => ({
      jobReference: { jobId, location: "europe-west3" },
      status: { state, ...(state === "DONE" ? { errorResult: error } : {}) },
    });
    const asked = /\/(jobs|queries)\/([^/]+)$/.exec(pathname);
    if (method === "GET" && asked?.[2] !== undefined && failed.includes(asked[2])) {
      if (asked[1] === "jobs") return answer(200, job(asked[2], "DONE"));
      return answer(STATUS[error.reason ?? ""] ?? 400, {
        error: { message: error.message, errors: [error] },
      });
    }
    const uploaded = /^\/failing-upload\/(.+)$/.exec(pathname)?.[1];
    if (uploaded !== undefined) return answer(200, job(uploaded, "RUNNING"));
    if (method !== "POST") return false;
    // Requests of the program: a job, or a query without one.
    const { jobReference } = JSON.parse(body === "" ? "{}" : body) as { jobReference?: { jobId: string } };
    const jobId = jobReference?.jobId ?? (pathname.endsWith("/queries") ? `query_${seen.length}` : "");
    if (!/\/(jobs|queries)$/.test(pathname) || !fails(jobId)) return false;
    if (pathname.startsWith("/upload"))
      return answer(200, {}, { location: `${ownUrl()}/failing-upload/${jobId}` });
    return pathname.endsWith("/queries")
      ? answer(200, { ...job(jobId, "RUNNING"), jobComplete: false })
      : answer(200, job(jobId, "RUNNING"));
  }

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = `${request.method} ${request.url}`;
    const index = seen.push(text) - 1;
    const meant = interruption?.isMeant(text, index) ? interruption : null;
    if (meant) interruption = null;
    const interruptAt = (moment: Moment): boolean => {
      if (meant?.moment !== moment) return false;
      meant.action();
      request.socket.destroy();
      return true;
    };
    request.on("error", () => {});
    response.on("error", () => {});
    if (isDown) {
      request.socket.destroy();
      return;
    }
    if (interruptAt("before")) return;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const isJson = (request.headers["content-type"] ?? "").startsWith("application/json");
    if (answerFailed(request, isJson ? body.toString() : "", response)) return;
    const { method, url: path, headers } = request;
    const upstream = send({ hostname, port, method, path, headers }, (answer) => {
      answer.on("error", () => {});
      if (interruptAt("after")) {
        answer.resume();
        return;
      }
      const { location } = answer.headers;
      const moved = location === undefined ? {} : { location: location.replace(target, ownUrl()) };
      response.writeHead(answer.statusCode ?? 502, { ...answer.headers, ...moved });
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    upstream.end(body);
    interruptAt("during");
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  function ownUrl(): string {
    const address = server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  }
  return {
    url: ownUrl(),
    /** Method and path of all requests so far. */
    seen: seen as readonly string[],
    /** Ids of failed jobs. */
    failed: failed as readonly string[],
    /** Runs `action` at the request with this number (0 is the next one); the client gets no response. */
    interrupt(at: number, moment: Moment, action: () => void): void {
      const wanted = seen.length + at;
      interruption = { isMeant: (_, index) => index === wanted, moment, action };
    },
    /** Breaks the connection at the next request that matches (method and path). */
    break(request: RegExp, moment: Moment): void {
      interruption = { isMeant: (text) => request.test(text), moment, action: () => {} };
    },
    /** Makes jobs fail, in one way at a time. */
    failJobs(wanted: JobFailure): void {
      failure = wanted;
    },
    /** Breaks every connection until `comeUp`. */
    goDown() {
      isDown = true;
    },
    comeUp() {
      isDown = false;
    },
  };
}
