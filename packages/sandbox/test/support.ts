import { afterEach } from "vitest";
import { Agent, request } from "undici";
import { parseFaults } from "../src/faults/plan.ts";
import { dayOf } from "../src/population/calendar.ts";
import { createPeople } from "../src/population/people.ts";
import { type Sandbox, type SandboxOptions, startSandbox } from "../src/start-sandbox.ts";

/** An answer as received by a client. */
export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Parsed body; tests declare the members they expect. */
  readonly body: Body;
}

/** A parsed JSON body; tests declare the members they read. */
export interface Body {
  readonly code?: string;
  readonly message?: string;
  readonly api_request_id?: string;
  readonly request_completed_at?: string;
  readonly details?: unknown;
  readonly results: readonly Result[];
  readonly [member: string]: unknown;
}

/** One result. */
export interface Result {
  readonly record_id: string | null;
  readonly is_match: boolean;
  readonly service_pid: string | null;
  readonly match_score: number | null;
  readonly validation_errors: unknown;
  readonly [member: string]: unknown;
}

const open: Sandbox[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((sandbox) => sandbox.close()));
});

/** Starts a sandbox of 10,000 people until the end of the test. */
export async function sandboxFor(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ people: 10_000, ...options });
  open.push(sandbox);
  return sandbox;
}

/** Sends a request, by default with a key; a body other than text or bytes is sent as JSON. */
export async function call(
  sandbox: Pick<Sandbox, "url">,
  path: string,
  body?: unknown,
  options: { readonly method?: "GET" | "POST"; readonly headers?: Record<string, string> } = {},
): Promise<Answered> {
  const raw = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const dispatcher = new Agent({ pipelining: 1 });
  try {
    const response = await request(sandbox.url + path, {
      dispatcher,
      method: options.method ?? (body === undefined ? "GET" : "POST"),
      headers: { "x-api-key": "test", "content-type": "application/json", ...options.headers },
      ...(raw === undefined ? {} : { body: raw }),
    });
    const text = await response.body.text();
    return { status: response.statusCode, headers: response.headers, text, body: parse(text) };
  } finally {
    await dispatcher.close();
  }
}

function parse(text: string): Body {
  try {
    return JSON.parse(text);
  } catch {
    return { results: [] };
  }
}

/** Calls a control, without a key. */
export async function control(sandbox: Pick<Sandbox, "url">, path: string, body?: object): Promise<Body> {
  return (await call(sandbox, `/_sandbox${path}`, body, { headers: { "x-api-key": "" } })).body;
}

/** Calls about asynchronous jobs whose paths begin with this one. */
export const callsOf = (jobs: string) => ({
  poll: (sandbox: Sandbox, id: string) => call(sandbox, `${jobs}/${id}`),
  unlock: (sandbox: Sandbox, id: string, page = "") =>
    call(sandbox, `${jobs}/${id}/results${page}`, undefined, { method: "POST" }),
  read: (sandbox: Sandbox, id: string, page = "") => call(sandbox, `${jobs}/${id}/results${page}`),
});

/** Enriches records and returns the results of a 200. */
export async function enrich(
  sandbox: Sandbox,
  records: readonly object[],
  more: object = {},
): Promise<readonly Result[]> {
  const answer = await call(sandbox, "/v2/enrich", { records, ...more });
  if (answer.status !== 200) throw new Error(`enrich answered ${answer.status}: ${answer.text}`);
  return answer.body.results;
}

/** People of {@link sandboxFor}. */
export const people = createPeople(1, 10_000);
export const today = dayOf(Date.now());

/** The first records that all match, 40 by default. */
export const recordsOf = (length: number) =>
  Array.from({ length }, (_, i) => ({ record_id: `${i}`, service_pid: people.pidOf(i, today) }));
export const records = recordsOf(40);

/** A sandbox with a fault plan. */
export async function sandboxWith(faults: string): Promise<Sandbox> {
  return sandboxFor({ faults: parseFaults(faults) });
}

/** Enriches records, by default the forty. */
export async function ask(sandbox: Sandbox, list: readonly object[] = records): Promise<Answered> {
  return call(sandbox, "/v2/enrich", { records: list });
}

/** The ledger's sums of enrich. */
export async function enrichTotals(sandbox: Sandbox): Promise<unknown> {
  const { body } = await call(sandbox, "/_sandbox/ledger");
  return new Map(Object.entries(Object(body["endpoints"]))).get("POST /v2/enrich");
}

/** Code of a broken connection, or the answer's status. */
export async function outcomeOf(sandbox: Sandbox): Promise<string | number> {
  try {
    return (await ask(sandbox)).status;
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}
