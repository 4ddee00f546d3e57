import { type Finding, finding } from "../failure.ts";
import type { HttpClient, HttpReply, HttpRequest } from "../../extract/http-client.ts";
import { connectHint } from "../../http-agent.ts";

/** Body of a free call to a billed endpoint: a call without records is rejected before any lookup. */
const EMPTY_BODY = "{}";

const TIMEOUT_MS = 15_000;

/**
 * Checks that the service is reachable, accepts the key, and allows each endpoint. Makes only free calls: the usage reports,
 * and calls with an empty body, which every endpoint rejects.
 * @param endpoints names are method and path (`POST /v2/enrich`)
 */
export async function checkService(
  http: HttpClient,
  endpoints: readonly {
    readonly name: string;
    readonly method: "GET" | "POST";
    readonly path: string;
    readonly asUser?: true;
  }[],
  signal: AbortSignal,
): Promise<Finding[]> {
  const request = async (call: Pick<HttpRequest, "method" | "path" | "asUser">): Promise<HttpReply> => {
    const body = call.method === "POST" ? EMPTY_BODY : null;
    const reply = await http.request({ ...call, body, signal, readTimeoutMs: TIMEOUT_MS });
    if (reply.kind === "response") reply.release();
    return reply;
  };
  const first = judgeUsage(http.origin, await request({ method: "GET", path: "/usage" }));
  if (first.status === "wrong" || first.status === "unreachable") return [first];
  const findings = [first];
  for (const { name, method, path, asUser = false } of endpoints) {
    findings.push(judgeEndpoint(name, await request({ method, path, asUser }), asUser));
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

/** Next step after a failed connection, by its code. */
function hintFor(code: string): string {
  if (
    code === "ERR_SSL_WRONG_VERSION_NUMBER" ||
    code === "EPROTO" ||
    code === "ERR_SSL_PACKET_LENGTH_TOO_LONG"
  ) {
    return "nothing speaks https there: check the port of service.base_url, or write http:// for a service on this machine";
  }
  const hint = connectHint(code, "service.ca");
  if (hint !== null) return hint;
  if (code === "ENOTFOUND")
    return "the host is unknown: check service.base_url, or set HTTPS_PROXY if only a proxy reaches it";
  if (code === "ECONNREFUSED")
    return "nothing listens there: check host and port of service.base_url, and HTTPS_PROXY if it is set";
  return "check service.base_url, the network and HTTPS_PROXY, then try again";
}

function judgeEndpoint(name: string, reply: HttpReply, asUser: boolean): Finding {
  if (reply.kind === "failure") {
    const hint = "try again; if it persists, contact the service";
    return finding(name, "unreachable", `no answer (${reply.code})`, hint);
  }
  switch (reply.status) {
    // Free reports without parameters.
    case 200:
    case 400:
    case 422:
      return finding(name, "ok", "the key has access");
    case 401:
      return asUser
        ? finding(
            name,
            "wrong",
            "rejects the key (401): asynchronous person search requires the key of a user",
            "set service.user_api_key",
          )
        : finding(name, "wrong", "rejects the key (401)", "check the key that service.api_key refers to");
    case 403:
      return finding(
        name,
        "wrong",
        "the key has no access (403)",
        "ask the service to add it to your plan, or set `enabled: false` for the jobs that need it",
      );
    case 404:
      return finding(
        name,
        "wrong",
        "doesn't exist (404)",
        "check service.base_url, which must not include a version",
      );
    default:
      return finding(
        name,
        "warning",
        `answered ${reply.status}; only a billed call could show whether the key has access`,
      );
  }
}
