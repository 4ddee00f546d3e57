import { setTimeout as delay } from "node:timers/promises";
import type { AuthClient } from "google-auth-library";
import { BigQueryFailure, isTransient } from "./failure.ts";

/** How to reach a project. */
export interface ClientOptions {
  readonly project: string;
  /** Path of a service account's key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Address of an emulator, which takes no credentials; null for Google's. */
  readonly apiEndpoint: string | null;
}

/** A request to the REST interface, with a path relative to the project. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** `/queries`, `/jobs/ID`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  readonly body?: unknown;
}

/** The REST interface of one project. */
export interface Client {
  readonly project: string;
  /** Sends a request that may be repeated; retried after transient failures. */
  send<Answer>(request: ApiRequest): Promise<Answer>;
  /** Sends one request with credentials and returns the response, whatever its status. Fails if no response came. */
  fetch(url: string, init: RequestInit): Promise<Response>;
  /** Address of uploads to the project's jobs. */
  readonly uploadUrl: string;
}

const SCOPE = "https://www.googleapis.com/auth/bigquery";
const MAX_ATTEMPTS = 6;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 16_000;
/** Longer than a request waits for a job. */
const TIMEOUT_MS = 120_000;

/** Opens a client; credentials are looked up at the first request. */
export function openClient(options: ClientOptions): Client {
  const { project } = options;
  const host = (options.apiEndpoint ?? "https://bigquery.googleapis.com").replace(/\/$/, "");
  const base = `${host}/bigquery/v2/projects/${project}`;
  let auth: Promise<AuthClient> | null = null;

  async function fetchOnce(url: string, init: RequestInit): Promise<Response> {
    try {
      const headers = new Headers(init.headers);
      if (options.apiEndpoint === null) {
        auth ??= connect(options);
        for (const [name, value] of await (await auth).getRequestHeaders(url)) headers.set(name, value);
      }
      return await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), ...init, headers });
    } catch (error) {
      auth = null;
      throw withoutResponse(error);
    }
  }

  return {
    project,
    uploadUrl: `${host}/upload/bigquery/v2/projects/${project}/jobs`,
    fetch: fetchOnce,
    async send<Answer>({ method, path, query = {}, body }: ApiRequest): Promise<Answer> {
      const url = new URL(`${base}${path}`);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
      }
      const init: RequestInit = { method };
      if (body !== undefined) {
        init.headers = { "content-type": "application/json" };
        init.body = JSON.stringify(body);
      }
      // The reference of the interface states the type; callers name it.
      return patiently(async () => (await answerOf(await fetchOnce(url.href, init))) as Answer);
    },
  };
}

/** Retries transient failures with growing pauses. */
export async function patiently<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !isTransient(error)) throw error;
      await delay(pauseMs(attempt));
    }
  }
}

/** Pause before the next attempt: exponential, half of it random. */
export function pauseMs(attempt: number): number {
  const full = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return full / 2 + (Math.random() * full) / 2;
}

async function connect({ credentialsFile, impersonate }: ClientOptions): Promise<AuthClient> {
  const { GoogleAuth, Impersonated } = await import("google-auth-library");
  const keyFile = credentialsFile === null ? {} : { keyFilename: credentialsFile };
  if (impersonate === null) return new GoogleAuth({ ...keyFile, scopes: SCOPE }).getClient();
  const scopes = "https://www.googleapis.com/auth/cloud-platform";
  const sourceClient = await new GoogleAuth({ ...keyFile, scopes }).getClient();
  return new Impersonated({ sourceClient, targetPrincipal: impersonate, targetScopes: [SCOPE] });
}

/** Body of an error response; every field may be missing. */
interface ErrorAnswer {
  readonly error?: {
    readonly message?: string;
    readonly errors?: readonly { readonly reason?: string; readonly message?: string }[];
  };
}

/** Parses a response as JSON; throws what BigQuery reports as an error. */
export async function answerOf(response: Response): Promise<unknown> {
  const { status } = response;
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw withoutResponse(error);
  }
  if (response.ok) return text === "" ? {} : JSON.parse(text);
  let answer: ErrorAnswer = {};
  try {
    // Google's error format, or the page of a proxy.
    answer = JSON.parse(text) as ErrorAnswer;
  } catch {
    // Its status says enough.
  }
  const [first] = answer.error?.errors ?? [];
  const message = first?.message ?? answer.error?.message ?? `HTTP status ${status}`;
  throw new BigQueryFailure(first?.reason ?? reasonOf(status), message, status);
}

function reasonOf(status: number): string {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "accessDenied";
  if (status === 404) return "notFound";
  return status === 409 ? "duplicate" : "unknown";
}

/** A failure of the network or of the credentials, without its cause, which may hold a whole response. */
function withoutResponse(error: unknown): BigQueryFailure {
  if (error instanceof BigQueryFailure) return error;
  // Errors of fetch and google-auth-library; every field may be missing.
  const { name, code, message, cause } = error as {
    readonly name?: string;
    readonly code?: string | number;
    readonly message?: string;
    readonly cause?: { readonly code?: string };
  };
  const text = message ?? "no response";
  if (name === "TimeoutError") return new BigQueryFailure("ETIMEDOUT", "no response in time", null);
  if (/default credentials|invalid_grant|private key|unauthorized/i.test(text)) {
    return new BigQueryFailure("unauthenticated", text, 401);
  }
  const system = cause?.code ?? (typeof code === "string" ? code : /\bE[A-Z]{4,}\b/.exec(text)?.[0]);
  return new BigQueryFailure(system ?? "unknown", system ? `no response (${system})` : text, null);
}
