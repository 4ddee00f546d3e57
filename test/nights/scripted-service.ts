import type { ServerResponse } from "node:http";
import { startServer, type TestServer } from "../support/http-proxy.ts";

/** Record as sent: an object, or an address for `validate_emails`. */
export type SentRecord = Readonly<Record<string, unknown>> | string;

/** Type of job that a request belongs to. */
export type Endpoint = "resolve" | "validate_emails" | "enrich";

/** Request as received. */
export interface Call {
  /** 0-based, of this night and endpoint. */
  readonly index: number;
  readonly endpoint: Endpoint;
  readonly records: readonly SentRecord[];
  /** Whole body. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** Reply other than the usual one. */
export type Fate =
  /** Answers with this status and body; bills nothing. */
  | { readonly status: number; readonly body?: object; readonly headers?: Readonly<Record<string, string>> }
  /** Bills the call, then closes the connection without a response. */
  | "reply_lost"
  /** Bills the call, then closes the connection in the middle of the body. */
  | "cut"
  /** Bills the call and answers without any result. */
  | "no_results"
  /** Repeats the last response of this endpoint byte for byte; bills nothing. */
  | "repeated";

/** Behavior of the service for one night. */
export interface Script {
  /** Fate of a call; undefined for the usual answer. */
  readonly call?: (call: Call) => Fate | undefined;
  /** Result of a record, made from the usual one; null omits it. */
  readonly result?: (usual: Result, record: SentRecord, call: Call) => Result | null;
  /** True: results come in the reverse order. */
  readonly reorders?: boolean;
  /** False: the service takes `Poison`, too. */
  readonly hasPoison?: boolean;
  /** Days by which the clock of the service is fast. */
  readonly daysFast?: number;
  /** Runs before the reply of a call, for instance to change a table meanwhile. */
  readonly during?: (call: Call) => Promise<unknown>;
}

/** Result of one record. */
export type Result = Readonly<Record<string, unknown>>;

/** Records by endpoint, sorted; endpoints without any are absent. */
export type Received = Readonly<Partial<Record<Endpoint, readonly string[]>>>;

export type ScriptedService = Awaited<ReturnType<typeof startService>>;

const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  "/v1/resolve": "resolve",
  "/v2/validate_emails": "validate_emails",
  "/v2/enrich": "enrich",
};

/** Fields in the order of the text of a content. */
const FIELDS = ["service_pid", "full_name", "first_name", "last_name", "emails", "phones", "city"];

function rank(field: string): number {
  return FIELDS.includes(field) ? FIELDS.indexOf(field) : FIELDS.length;
}

/** Content of a record as text: its values without `record_id`, such as `Ann ann@x Rome`. */
export function contentOf(record: SentRecord): string {
  if (typeof record === "string") return record;
  return Object.entries(record)
    .filter(([field]) => field !== "record_id")
    .toSorted(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .flatMap(([, value]) => value)
    .join(" ");
}

function nameIn(record: SentRecord): string {
  if (typeof record === "string") return record;
  return contentOf({ ...record, service_pid: undefined }).trim();
}

/** PID of a name: `p-ann` for Ann. */
export function pidOf(name: string): string {
  return `p-${name.toLowerCase().replaceAll(/[^\p{L}\p{N}@.]+/gu, "-")}`;
}

/**
 * Usual result of a record. The person depends on the first word of the content. These first words are special: `Nobody` has no match,
 * `Lost` no result, `Poison` is refused with its whole call (422). The address `bad…` is invalid, `unknown…` unmatched.
 */
function usualResult(endpoint: Endpoint, record: SentRecord): Result | null {
  const [first = ""] = nameIn(record).split(" ");
  if (first === "Lost" || first.startsWith("lost")) return null;
  if (typeof record === "string") {
    const isMatch = !record.startsWith("unknown");
    return {
      email_address: record,
      is_match: isMatch,
      email_validation_status: isMatch ? (record.startsWith("bad") ? "invalid" : "valid") : null,
      email_last_seen: isMatch ? "2026-01-02T03:04:05" : null,
    };
  }
  const isMatch = first !== "Nobody";
  const own = record["service_pid"];
  const pid = isMatch ? (typeof own === "string" ? own : pidOf(first)) : null;
  return {
    record_id: record["record_id"],
    is_match: isMatch,
    service_pid: pid,
    match_score: isMatch ? 90 : null,
    validation_errors: null,
    ...(endpoint === "resolve" ? { is_resolvable_record: true } : isMatch ? personOf(pid ?? "", first) : {}),
  };
}

function personOf(pid: string, first: string): Result {
  return {
    full_name: `${first} Doe`,
    gender: "female",
    personal_emails: [{ email_rank: 1, email_address: `${pid}@home.example` }],
    phones: [{ phone_rank: 1, phone_type: "mobile", phone_number: "5550100" }],
  };
}

/** Positions of records that the service refuses. */
function poisonIn(records: readonly SentRecord[]): readonly number[] {
  return records.flatMap((record, i) => (/^poison/iu.test(nameIn(record)) ? [i] : []));
}

function countedBy(calls: readonly Call[]): Received {
  const byEndpoint: Partial<Record<Endpoint, string[]>> = {};
  for (const { endpoint, records } of calls) (byEndpoint[endpoint] ??= []).push(...records.map(contentOf));
  for (const list of Object.values(byEndpoint)) list.sort();
  return byEndpoint;
}

/** Starts a server of JSON on a free port; a path that isn't an endpoint's gets 404. `url` is the whole one of the request. */
export function serve(
  handle: (
    endpoint: Endpoint,
    body: Readonly<Record<string, unknown>>,
    response: ServerResponse,
    url: URL,
  ) => Promise<void>,
): Promise<TestServer> {
  return startServer(async (request, response, bytes) => {
    const url = new URL(request.url ?? "", "http://service");
    const endpoint = ENDPOINTS[url.pathname];
    if (endpoint === undefined) return response.writeHead(404).end("{}");
    const parsed: unknown = JSON.parse(String(bytes));
    return handle(
      endpoint,
      typeof parsed === "object" && parsed !== null ? { ...parsed } : {},
      response,
      url,
    );
  });
}

/** Starts a service that answers by the content of each record. */
export async function startService() {
  let script: Script = {};
  let answers = 0;
  const calls: Call[] = [];
  const billed: Call[] = [];
  const last = new Map<Endpoint, string>();

  function fateOf(call: Call): Fate | undefined {
    const fate = script.call?.(call);
    const poison = script.hasPoison === false ? [] : poisonIn(call.records);
    if (fate !== undefined || poison.length === 0) return fate;
    const details = poison.map((i) => ({
      loc: ["body", "records", String(i), "emails"],
      type: "value_error",
    }));
    return {
      status: 422,
      body: { code: "validation_error", message: "refused", api_request_id: "r", details },
    };
  }

  function answerOf(results: readonly unknown[]): string {
    answers += 1;
    const completedMs = Date.now() + (script.daysFast ?? 0) * 86_400_000;
    const completed = new Date(completedMs).toISOString().replace("Z", "000Z");
    return JSON.stringify({ api_request_id: `req-${answers}`, results, request_completed_at: completed });
  }

  const server = await serve(async (endpoint, body, response): Promise<void> => {
    const records = (Array.isArray(body["records"]) ? body["records"] : []) as readonly SentRecord[];
    const index = calls.filter((call) => call.endpoint === endpoint).length;
    const call: Call = { index, endpoint, records, body };
    calls.push(call);
    await script.during?.(call);
    const fate = fateOf(call);
    if (typeof fate === "object") {
      response.writeHead(fate.status, { "content-type": "application/json", ...fate.headers });
      response.end(JSON.stringify(fate.body ?? { code: "error", message: "error", api_request_id: "r" }));
      return;
    }
    const results = records.flatMap((record) => {
      const usual = usualResult(endpoint, record);
      const result = usual && script.result ? script.result(usual, record, call) : usual;
      return result ? [result] : [];
    });
    if (script.reorders === true) results.reverse();
    const repeated = fate === "repeated" ? last.get(endpoint) : undefined;
    const reply = repeated ?? answerOf(fate === "no_results" ? [] : results);
    last.set(endpoint, reply);
    if (repeated === undefined) billed.push(call);
    if (fate === "reply_lost") return void response.destroy();
    response.writeHead(200, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(reply),
    });
    if (fate === "cut") {
      response.write(reply.slice(0, reply.length / 2), () => response.destroy());
      return;
    }
    response.end(reply);
  });
  return {
    ...server,
    /** Starts a night: forgets what was received, and follows another script. */
    begin(next: Script): void {
      script = next;
      calls.length = 0;
      billed.length = 0;
    },
    /** Contents received since `begin`, with repetitions. */
    received: () => countedBy(calls),
    /** Contents billed since `begin`, with repetitions. */
    billed: () => countedBy(billed),
    /** Requests since `begin`. */
    calls: calls as readonly Call[],
  };
}
