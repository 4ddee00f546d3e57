import type { HttpClient, HttpReply } from "../extract/http-client.ts";
import { connectHint } from "../http-agent.ts";
import type { Finding } from "./check-finding.ts";

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
  const usage = await http.request({
    method: "GET",
    path: "/usage",
    body: null,
    signal,
    readTimeoutMs: TIMEOUT_MS,
  });
  if (usage.kind === "response") usage.release();
  const first = judgeUsage(http.origin, usage);
  if (first.some(({ status }) => status === "wrong" || status === "unreachable")) return first;
  const findings = [...first];
  for (const { name, method, path, asUser = false } of endpoints) {
    const reply = await http.request({
      method,
      path,
      asUser,
      body: method === "POST" ? EMPTY_BODY : null,
      signal,
      readTimeoutMs: TIMEOUT_MS,
    });
    if (reply.kind === "response") reply.release();
    findings.push(asUser && reply.status === 401 ? rejectedUserKey(name) : judgeEndpoint(name, reply));
  }
  return findings;
}

function judgeUsage(origin: string, reply: HttpReply): Finding[] {
  const subject = "service";
  if (reply.kind === "failure") {
    return [
      {
        subject,
        status: "unreachable",
        message: `${origin} is unreachable (${reply.code})`,
        hint: hintFor(reply.code),
      },
    ];
  }
  const { status } = reply;
  if (status === 401) return [rejectedKey(origin)];
  if (status === 429) {
    return [
      { subject, status: "warning", message: `${origin} is reachable, but currently rejects calls (429)` },
    ];
  }
  if (status >= 500) {
    return [
      {
        subject,
        status: "unreachable",
        message: `${origin} fails (${status})`,
        hint: "try again later",
      },
    ];
  }
  if (status >= 300 && status < 400) {
    return [
      {
        subject,
        status: "wrong",
        message: `${origin} redirects calls (${status}); the key is not forwarded`,
        hint: "set service.base_url to the service's own address",
      },
    ];
  }
  return [
    {
      subject,
      status: "ok",
      message: status === 200 ? `${origin} is reachable and accepts the key` : `${origin} is reachable`,
    },
  ];
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

function rejectedKey(origin: string): Finding {
  return {
    subject: "API key",
    status: "wrong",
    message: `${origin} rejects the key (401)`,
    hint: "check the key that service.api_key refers to: it may be mistyped, revoked, or from another organization",
  };
}

function rejectedUserKey(name: string): Finding {
  return {
    subject: name,
    status: "wrong",
    message: "rejects the key (401): asynchronous person search requires the key of a user",
    hint: "set service.user_api_key",
  };
}

function judgeEndpoint(name: string, reply: HttpReply): Finding {
  if (reply.kind === "failure") {
    return {
      subject: name,
      status: "unreachable",
      message: `no answer (${reply.code})`,
      hint: "try again; if it persists, contact the service",
    };
  }
  switch (reply.status) {
    // Free reports without parameters.
    case 200:
    case 400:
    case 422:
      return { subject: name, status: "ok", message: "the key has access" };
    case 401:
      return {
        subject: name,
        status: "wrong",
        message: "rejects the key (401)",
        hint: "check the key that service.api_key refers to",
      };
    case 403:
      return {
        subject: name,
        status: "wrong",
        message: "the key has no access (403)",
        hint: "ask the service to add it to your plan, or set `enabled: false` for the jobs that need it",
      };
    case 404:
      return {
        subject: name,
        status: "wrong",
        message: "doesn't exist (404)",
        hint: "check service.base_url, which must not include a version",
      };
    default:
      return {
        subject: name,
        status: "warning",
        message: `answered ${reply.status}; only a billed call could show whether the key has access`,
      };
  }
}
