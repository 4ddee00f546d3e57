import { setTimeout as delay } from "node:timers/promises";
import type { BigQuery, BigQueryOptions } from "@google-cloud/bigquery";
import { BigQueryFailure, isTransient } from "./failure.ts";

/** How to reach a project. */
export interface ClientOptions {
  readonly project: string;
  /** Path of a service account's key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Of an emulator, which takes everybody; null for Google's. */
  readonly apiEndpoint: string | null;
}

/** A request to the REST interface, relative to the project. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** `/queries`, `/jobs/ID`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
}

/** The REST interface of one project, with retries of what passes by itself. */
export interface Client {
  /** Answers of a request that may be repeated. */
  send<Answer>(request: ApiRequest): Promise<Answer>;
  /** Google's own client, for uploads. */
  readonly google: () => Promise<BigQuery>;
}

const SCOPE = "https://www.googleapis.com/auth/bigquery";
const MAX_ATTEMPTS = 6;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 16_000;

/** Opens a client; Google's library is loaded at the first request, so that nobody else pays for it. */
export function openClient(options: ClientOptions): Client {
  let opened: Promise<BigQuery> | null = null;
  const google = () => (opened ??= connect(options));
  return {
    google,
    async send<Answer>(request: ApiRequest): Promise<Answer> {
      const client = await google();
      // What comes back is what the interface's reference says; callers name it.
      return (await patiently(() => sendOnce(client, request))) as Answer;
    },
  };
}

/** Tries again what passes by itself, with growing pauses. */
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

/** Exponential, half of it by chance, so that processes that met don't meet again. */
export function pauseMs(attempt: number): number {
  const full = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return full / 2 + (Math.random() * full) / 2;
}

async function connect(options: ClientOptions): Promise<BigQuery> {
  const { BigQuery: Google } = await import("@google-cloud/bigquery");
  const settings: BigQueryOptions = { projectId: options.project, autoRetry: false };
  const client = new Google({ ...settings, ...(await credentialsOf(options)) });
  // The library takes BIGQUERY_EMULATOR_HOST for the whole address, and everybody else without the path.
  client.baseUrl = `${(options.apiEndpoint ?? "https://bigquery.googleapis.com").replace(/\/$/, "")}/bigquery/v2`;
  return client;
}

async function credentialsOf(options: ClientOptions): Promise<BigQueryOptions> {
  const { GoogleAuth, Impersonated, PassThroughClient } = await import("google-auth-library");
  if (options.apiEndpoint !== null) {
    return { apiEndpoint: options.apiEndpoint, authClient: new PassThroughClient() };
  }
  const keyFile = options.credentialsFile === null ? {} : { keyFilename: options.credentialsFile };
  if (options.impersonate === null) return keyFile;
  const sourceClient = await new GoogleAuth({
    ...keyFile,
    scopes: "https://www.googleapis.com/auth/cloud-platform",
  }).getClient();
  return {
    authClient: new Impersonated({
      sourceClient,
      targetPrincipal: options.impersonate,
      targetScopes: [SCOPE],
    }),
  };
}

function sendOnce(client: BigQuery, { method, path, query, body }: ApiRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const options = {
      method,
      uri: path,
      ...(query === undefined ? {} : { qs: query }),
      ...(body === undefined ? {} : { json: body }),
    };
    client.request(options, (error: unknown, answer: unknown) => {
      if (error) reject(failureOf(error));
      else resolve(answer);
    });
  });
}

/** What the library throws, as one kind of error; without its cause, which holds the whole answer. */
export function failureOf(error: unknown): BigQueryFailure {
  if (error instanceof BigQueryFailure) return error;
  // ApiError of @google-cloud/common, or an error of the system; every field may be missing.
  const { code, errors, message } = error as {
    readonly code?: number | string;
    readonly errors?: readonly { readonly reason?: string; readonly message?: string }[];
    readonly message?: string;
  };
  const [first] = errors ?? [];
  const status = typeof code === "number" ? code : Number(code) || null;
  const word = first?.reason ?? (typeof code === "string" && !Number(code) ? code : wordOf(status, message));
  return new BigQueryFailure(word, first?.message ?? message ?? "no answer", status);
}

function wordOf(status: number | null, message: string | undefined): string {
  if (status === 401) return "unauthenticated";
  if (status === 403) return "accessDenied";
  if (status === 404) return "notFound";
  if (status === 409) return "duplicate";
  const [system] = /\bE[A-Z]{4,}\b/.exec(message ?? "") ?? [];
  if (system) return system;
  return /default credentials|invalid_grant|private key/i.test(message ?? "") ? "unauthenticated" : "unknown";
}
