import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { BigQuery } from "@google-cloud/bigquery";
import type { AuthClient } from "google-auth-library";
import type { RequestInit, Response } from "undici";
import { codeOf } from "../errors.ts";
import { type Agent, openAgent, proxyOf } from "../http-agent.ts";
import { observe, type OutageReport } from "../outage-report.ts";
import { BigQueryFailure, isTransient } from "./failure.ts";

export interface ClientOptions {
  /** Project of the datasets. */
  readonly project: string;
  /** Project that runs and pays for jobs; by default that of the datasets. */
  readonly billingProject?: string | null;
  /** Path of a service account's key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Private or regional address of the API; http:// for an emulator on this machine. Null for Google's. */
  readonly apiEndpoint: string | null;
  /** Labels of jobs and datasets besides `application`, for cost attribution. */
  readonly labels?: Readonly<Record<string, string>> | null;
  /** Stops waiting for jobs and uploads; an accepted job goes on. */
  readonly signal?: AbortSignal;
  /** Time that a job may take; BigQuery itself ends one after six hours of work. */
  readonly jobDeadlineMs?: number;
  /** Reports when it doesn't respond. */
  readonly outage?: OutageReport;
}

/** Request to the REST interface, with a path relative to the project: of the datasets for `/datasets…`, else the one that pays. */
interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** `/queries`, `/jobs/ID`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  readonly body?: unknown;
}

export type Client = ReturnType<typeof openClient>;

const SCOPE = "https://www.googleapis.com/auth/bigquery";
const MAX_ATTEMPTS = 6;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 16_000;
/** Longer than a request waits for a job. */
const TIMEOUT_MS = 120_000;
/** Six hours of work, and time in the queue. */
const JOB_DEADLINE_MS = 8 * 3_600_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** More than requests in flight. */
const CONNECTIONS = 16;

/** Opens a client; Google's library is loaded at the first request. */
export function openClient(options: ClientOptions) {
  const { project, signal } = options;
  const billingProject = options.billingProject ?? project;
  const { host, isEmulator } = hostOf(options);
  const labels: Readonly<Record<string, string>> = { ...options.labels, application: "person-etl" };
  const agent = openAgent({ connections: CONNECTIONS, connectTimeoutMs: CONNECT_TIMEOUT_MS });
  // The library chooses a proxy by rules of its own, unless one is given; it can't be told to use none.
  const proxy = proxyOf(host);
  let opened: Promise<BigQuery> | null = null;
  /** Failures aren't cached: the key file may exist next time. */
  const google = () =>
    (opened ??= connect(options, { host, isEmulator, agent }).catch((error: unknown) => {
      opened = null;
      throw failureOf(error);
    }));
  return {
    project,
    /** Project of the jobs. */
    billingProject,
    labels,
    signal,
    jobDeadlineMs: options.jobDeadlineMs ?? JOB_DEADLINE_MS,
    uploadUrl: `${host}/upload/bigquery/v2/projects/${billingProject}/jobs`,
    /**
     * Sends one request of an upload, to the host of the project only; returns the response of any status.
     * Google's library has no resumable uploads.
     */
    async fetch(url: string, init: RequestInit): Promise<Response> {
      if (new URL(url).origin !== new URL(host).origin) {
        throw new BigQueryFailure(
          "another_host",
          "the response points to another host, which gets no token",
          null,
        );
      }
      try {
        const headers = new Headers(init.headers);
        if (!isEmulator) {
          const token = google().then(({ authClient }) => authClient.getRequestHeaders(url));
          for (const [name, value] of await untilStopped(token, signal)) headers.set(name, value);
        }
        const ends = [init.signal ?? AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
        return await agent.fetch(url, { ...init, signal: AbortSignal.any(ends), headers });
      } catch (error) {
        signal?.throwIfAborted();
        throw failureOf(error);
      }
    },
    /** Sends an idempotent request; retries after transient failures. */
    async send<Answer>(request: ApiRequest): Promise<Answer> {
      // Callers state the type, as documented by the interface.
      const owner = request.path.startsWith("/datasets") ? project : billingProject;
      const attempt = () =>
        untilStopped(
          google().then((client) => sendOnce(client, { ...request, owner }, proxy)),
          signal,
        );
      const work = () =>
        observe(
          options.outage,
          outageOf,
          (connected) => {
            // BigQuery responds when the query has ended, or after a time.
            if (request.path.startsWith("/queries")) connected();
            return attempt();
          },
          TIMEOUT_MS,
        );
      return (await withRetries(work, signal)) as Answer;
    },
  };
}

/** Address of the API. An emulator takes no credentials: one on this machine, or the one that Google's tools find in the environment. */
function hostOf({ apiEndpoint }: ClientOptions): { readonly host: string; readonly isEmulator: boolean } {
  const emulator = process.env["BIGQUERY_EMULATOR_HOST"] ?? "";
  if (apiEndpoint === null && emulator !== "") {
    const host = emulator.includes("://") ? emulator : `http://${emulator}`;
    return { host: host.replace(/\/$/, ""), isEmulator: true };
  }
  const host = (apiEndpoint ?? "https://bigquery.googleapis.com").replace(/\/$/, "");
  return { host, isEmulator: new URL(host).protocol === "http:" };
}

/** Code of a failure that passes; null for another error. */
function outageOf(error: unknown): string | null {
  return isTransient(error) ? (codeOf(error) ?? "no response") : null;
}

/** Waits; throws the reason of a signal at once. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await delay(ms, undefined, signal ? { signal } : {}).catch(() => {});
  signal?.throwIfAborted();
}

/** Returns the result of a request, or throws the reason of a signal at once; the library can't abort its requests. */
async function untilStopped<Result>(
  request: Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  if (signal === undefined) return request;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    request.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** Retries transient failures with growing pauses. */
export async function withRetries<Result>(
  work: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !isTransient(error)) throw error;
      await pause(pauseMs(attempt), signal);
    }
  }
}

/** Pause before the next attempt: exponential, half of it random. */
export function pauseMs(attempt: number): number {
  const full = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return full / 2 + (Math.random() * full) / 2;
}

async function connect(
  options: ClientOptions,
  to: { readonly host: string; readonly isEmulator: boolean; readonly agent: Agent },
): Promise<BigQuery> {
  const { BigQuery: Google } = await import("@google-cloud/bigquery");
  const { PassThroughClient } = await import("google-auth-library");
  const authClient = to.isEmulator ? new PassThroughClient() : await credentialsOf(options, to.agent);
  const client = new Google({
    projectId: options.project,
    autoRetry: false,
    authClient,
    apiEndpoint: to.host,
  });
  // The library would use BIGQUERY_EMULATOR_HOST as the whole address.
  client.baseUrl = `${to.host}/bigquery/v2`;
  return client;
}

async function credentialsOf(
  { credentialsFile, impersonate }: ClientOptions,
  agent: Agent,
): Promise<AuthClient> {
  const { Impersonated } = await import("google-auth-library");
  if (impersonate === null) return authOf(credentialsFile, SCOPE, agent);
  const sourceClient = await authOf(credentialsFile, "https://www.googleapis.com/auth/cloud-platform", agent);
  return new Impersonated({ sourceClient, targetPrincipal: impersonate, targetScopes: [SCOPE] });
}

/** Credentials of a service account's key file, or the application default ones. */
async function authOf(credentialsFile: string | null, scopes: string, agent: Agent): Promise<AuthClient> {
  const { GoogleAuth, JWT } = await import("google-auth-library");
  const transporterOptions = { fetchImplementation: fetchThrough(agent) };
  if (credentialsFile === null)
    return new GoogleAuth({ scopes, clientOptions: { transporterOptions } }).getClient();
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
  return new JWT({ email, key, scopes, transporterOptions });
}

/** Requests for tokens take the same way as all others. */
function fetchThrough(agent: Agent): typeof globalThis.fetch {
  // undici's types and those of Node.js describe the same interface.
  return ((url: string, init: RequestInit) => agent.fetch(url, init)) as unknown as typeof globalThis.fetch;
}

function sendOnce(
  client: BigQuery,
  { method, path, query, body, owner }: ApiRequest & { readonly owner: string },
  proxy: string | null,
): Promise<unknown> {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return new Promise((resolve, reject) => {
    const options = {
      method,
      projectId: owner,
      uri: path,
      timeout: TIMEOUT_MS,
      ...(proxy === null ? {} : { proxy }),
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
    readonly cause?: unknown;
  };
  const [first] = errors ?? [];
  const text = first?.message ?? causeOf(cause)?.message ?? message ?? "no response";
  const status = Number(code) || null;
  if (first?.reason !== undefined) return new BigQueryFailure(first.reason, text, status);
  if (name === "TimeoutError") return new BigQueryFailure("ETIMEDOUT", "no response in time", null);
  if (/default credentials|invalid_grant|private key/i.test(text)) {
    return new BigQueryFailure("unauthenticated", text, 401);
  }
  if (status !== null) return new BigQueryFailure(reasonOf(status), text, status);
  const system = causeOf(cause)?.code ?? (typeof code === "string" ? code : /\bE[A-Z]{4,}\b/.exec(text)?.[0]);
  const isBroken = /socket hang up|network timeout|Proxy connection ended/.test(text);
  return new BigQueryFailure(system ?? (isBroken ? "ECONNRESET" : "unknown"), text, null);
}

/** The first error with a code among the causes of a fetch, which the library may have wrapped. */
function causeOf(cause: unknown): { readonly code?: string; readonly message: string } | null {
  if (!(cause instanceof Error)) return null;
  const code = codeOf(cause);
  const inner = code === null ? causeOf(cause.cause) : null;
  return inner ?? { ...(code === null ? {} : { code }), message: cause.message };
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
  // No status of BigQuery: the library hands on the proxy's answer.
  if (status === 407) return "PROXY_407";
  return status === 409 ? "duplicate" : "unknown";
}
