import { type Finding, finding } from "./findings.ts";
import type { HttpClient, HttpReply } from "../../extract/http-client.ts";
import { connectHint } from "../../http-agent.ts";
import type { JobType } from "../../jobs/job-type.ts";

/** Body of a free call to a billed endpoint: a call without records is rejected before any lookup. */
const EMPTY_BODY = "{}";

const TIMEOUT_MS = 15_000;

/**
 * Checks that the service is reachable, accepts the key, and allows each endpoint. Makes only free calls: the usage reports,
 * and calls with an empty body, which every endpoint rejects.
 */
export async function checkService(
  http: HttpClient,
  endpoints: JobType["endpoints"],
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const request = async (call: Omit<JobType["endpoints"][number], "name">): Promise<HttpReply> => {
    const body = call.method === "POST" ? EMPTY_BODY : null;
    const reply = await http.request({ ...call, body, signal, readTimeoutMs: TIMEOUT_MS });
    if (reply.kind === "response") reply.release();
    return reply;
  };
  const first = judgeUsage(http.origin, await request({ method: "GET", path: "/usage" }));
  const findings = [first];
  if (first.status === "wrong" || first.status === "unreachable") return findings;
  for (const { name, ...call } of endpoints) {
    findings.push(judgeEndpoint(name, call.asUser === true, await request(call)));
  }
  return findings;
}

function judgeUsage(origin: string, reply: HttpReply): Finding {
  const subject = "service";
  if (reply.kind === "failure") {
    return finding(subject, "unreachable", `${origin} is unreachable (${reply.code})`, hintFor(reply.code));
  }
  const { status } = reply;
  if (status === 401) {
    const hint =
      "check the key that service.api_key refers to: it may be mistyped, revoked, or from another organization";
    return finding("API key", "wrong", `${origin} rejects the key (401)`, hint);
  }
  if (status === 429) {
    return finding(subject, "warning", `${origin} is reachable, but currently rejects calls (429)`);
  }
  if (status >= 500) return finding(subject, "unreachable", `${origin} fails (${status})`, "try again later");
  if (status >= 300 && status < 400) {
    const message = `${origin} redirects calls (${status}); the key is not forwarded`;
    return finding(subject, "wrong", message, "set service.base_url to the service's own address");
  }
  return finding(subject, "ok", `${origin} is reachable${status === 200 ? " and accepts the key" : ""}`);
}

const NO_TLS =
  "it is not an HTTPS server: check the port of service.base_url, or write http:// for a service on this machine";

/** Next step after a failed connection, by its code. */
const CONNECT_HINTS: Readonly<Record<string, string>> = {
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  EPROTO: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  ENOTFOUND: "the host is unknown: check service.base_url, or set HTTPS_PROXY if only a proxy reaches it",
  ECONNREFUSED:
    "nothing listens there: check host and port of service.base_url, and HTTPS_PROXY if it is set",
};

function hintFor(code: string): string {
  return (
    connectHint(code, "service.ca") ??
    CONNECT_HINTS[code] ??
    "check service.base_url, the network and HTTPS_PROXY, then try again"
  );
}

/** Findings about an endpoint, by status of a free call: a call without records is a bad one. */
const ACCESS: Readonly<Record<number, readonly [Finding["status"], message: string, hint?: string]>> = {
  200: ["ok", "the key has access"],
  400: ["ok", "the key has access"],
  422: ["ok", "the key has access"],
  401: ["wrong", "rejects the key (401)", "check the key that service.api_key refers to"],
  403: [
    "wrong",
    "the key has no access (403)",
    "ask the service to add it to your plan, or set `enabled: false` for the jobs that need it",
  ],
  404: ["wrong", "doesn't exist (404)", "check service.base_url, which must not include a version"],
};

function judgeEndpoint(name: string, asUser: boolean, reply: HttpReply): Finding {
  if (reply.kind === "failure") {
    const hint = "try again; if it persists, contact the service";
    return finding(name, "unreachable", `no response (${reply.code})`, hint);
  }
  if (reply.status === 401 && asUser) {
    const message = "rejects the key (401): asynchronous person search requires the key of a user";
    return finding(name, "wrong", message, "set service.user_api_key");
  }
  const unknown = `returned ${reply.status}; only a billed call could show whether the key has access`;
  return finding(name, ...(ACCESS[reply.status] ?? (["warning", unknown] as const)));
}
