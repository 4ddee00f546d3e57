import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { BigQuery, BigQueryOptions } from "@google-cloud/bigquery";
import type { AuthClient } from "google-auth-library";
import { BigQueryFailure, isTransient } from "./failure.ts";

/** Options of a client. */
export interface ClientOptions {
  readonly project: string;
  /** Path of a service account's key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Address of an emulator, which takes no credentials; null for Google's. */
  readonly apiEndpoint: string | null;
}

/** Request to the REST interface, with a path relative to the project. */
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
  /** Sends an idempotent request; retries after transient failures. */
  send<Answer>(request: ApiRequest): Promise<Answer>;
  /** Sends one request of an upload; returns the response of any status. Google's library has no resumable uploads. */
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

/** Opens a client; Google's library is loaded at the first request. */
export function openClient(options: ClientOptions): Client {
  const { project } = options;
  const host = (options.apiEndpoint ?? "https://bigquery.googleapis.com").replace(/\/$/, "");
  let opened: Promise<BigQuery> | null = null;
  /** Failures aren't cached: the key file may exist next time. */
  const google = () =>
    (opened ??= connect(options, `${host}/bigquery/v2`).catch((error: unknown) => {
      opened = null;
      throw error;
    }));
  return {
    project,
    uploadUrl: `${host}/upload/bigquery/v2/projects/${project}/jobs`,
    async fetch(url, init) {
      const { authClient } = await google();
      try {
        const headers = new Headers(init.headers);
        if (options.apiEndpoint === null) {
          for (const [name, value] of await authClient.getRequestHeaders(url)) headers.set(name, value);
        }
        return await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), ...init, headers });
      } catch (error) {
        throw failureOf(error);
      }
    },
    async send<Answer>(request: ApiRequest): Promise<Answer> {
      const client = await google();
      // Callers state the type, as documented by the interface.
      return (await withRetries(() => sendOnce(client, request))) as Answer;
    },
  };
}

/** Retries transient failures with growing pauses. */
export async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
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

async function connect(options: ClientOptions, baseUrl: string): Promise<BigQuery> {
  const { BigQuery: Google } = await import("@google-cloud/bigquery");
  const credentials = await credentialsOf(options);
  const client = new Google({ projectId: options.project, autoRetry: false, ...credentials });
  // The library would use BIGQUERY_EMULATOR_HOST as the whole address.
  client.baseUrl = baseUrl;
  return client;
}

async function credentialsOf({
  apiEndpoint,
  credentialsFile,
  impersonate,
}: ClientOptions): Promise<BigQueryOptions> {
  const { Impersonated, PassThroughClient } = await import("google-auth-library");
  if (apiEndpoint !== null) return { apiEndpoint, authClient: new PassThroughClient() };
  if (impersonate === null) {
    return credentialsFile === null ? {} : { authClient: await authOf(credentialsFile, SCOPE) };
  }
  const sourceClient = await authOf(credentialsFile, "https://www.googleapis.com/auth/cloud-platform");
  return {
    authClient: new Impersonated({ sourceClient, targetPrincipal: impersonate, targetScopes: [SCOPE] }),
  };
}

/** Credentials of a service account's key file, or the application default ones. */
async function authOf(credentialsFile: string | null, scopes: string): Promise<AuthClient> {
  const { GoogleAuth, JWT } = await import("google-auth-library");
  if (credentialsFile === null) return new GoogleAuth({ scopes }).getClient();
  let file: { readonly client_email?: unknown; readonly private_key?: unknown };
  try {
    // Only two text fields are read.
    file = JSON.parse(await readFile(credentialsFile, "utf8")) as typeof file;
  } catch {
    throw new BigQueryFailure("unauthenticated", `the key file ${credentialsFile} can't be read`, null);
  }
  const { client_email: email, private_key: key } = file;
  if (typeof email !== "string" || typeof key !== "string") {
    throw new BigQueryFailure("unauthenticated", `${credentialsFile} is not a service account key`, null);
  }
  return new JWT({ email, key, scopes });
}

function sendOnce(client: BigQuery, { method, path, query, body }: ApiRequest): Promise<unknown> {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return new Promise((resolve, reject) => {
    const options = {
      method,
      uri: path,
      timeout: TIMEOUT_MS,
      ...(given.length === 0 ? {} : { qs: Object.fromEntries(given) }),
      ...(body === undefined ? {} : { json: body }),
    };
    client.request(options, (error: unknown, answer: unknown) => {
      if (error) reject(failureOf(error));
      else resolve(answer);
    });
  });
}

/** Converts an error of the library or fetch, without its cause, which may contain a whole response. */
function failureOf(error: unknown): BigQueryFailure {
  if (error instanceof BigQueryFailure) return error;
  // ApiError of @google-cloud/common, or an error of the network; every field may be missing.
  const { name, code, errors, message, cause } = error as {
    readonly name?: string;
    readonly code?: number | string;
    readonly errors?: readonly { readonly reason?: string; readonly message?: string }[];
    readonly message?: string;
    readonly cause?: { readonly code?: string };
  };
  const [first] = errors ?? [];
  const text = first?.message ?? message ?? "no response";
  const status = Number(code) || null;
  if (first?.reason !== undefined) return new BigQueryFailure(first.reason, text, status);
  if (name === "TimeoutError") return new BigQueryFailure("ETIMEDOUT", "no response in time", null);
  if (/default credentials|invalid_grant|private key/i.test(text)) {
    return new BigQueryFailure("unauthenticated", text, 401);
  }
  if (status !== null) return new BigQueryFailure(reasonOf(status), text, status);
  const system = cause?.code ?? (typeof code === "string" ? code : /\bE[A-Z]{4,}\b/.exec(text)?.[0]);
  const isBroken = /socket hang up|network timeout/.test(text);
  return new BigQueryFailure(system ?? (isBroken ? "ECONNRESET" : "unknown"), text, null);
}

/** Body of an error response; every field may be missing. */
interface ErrorAnswer {
  readonly error?: {
    readonly message?: string;
    readonly errors?: readonly { readonly reason?: string; readonly message?: string }[];
  };
}

/** Parses a response to {@link Client.fetch}; throws errors reported by BigQuery. */
export async function answerOf(response: Response): Promise<unknown> {
  const { status } = response;
  try {
    const text = await response.text();
    if (response.ok) return text === "" ? {} : JSON.parse(text);
    // Google's error format; a proxy may return a page instead.
    const answer = (text.startsWith("{") ? JSON.parse(text) : {}) as ErrorAnswer;
    throw failureOf({
      ...answer.error,
      code: status,
      message: answer.error?.message ?? `HTTP status ${status}`,
    });
  } catch (error) {
    throw failureOf(error);
  }
}

function reasonOf(status: number): string {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "accessDenied";
  if (status === 404) return "notFound";
  return status === 409 ? "duplicate" : "unknown";
}
