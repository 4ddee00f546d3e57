import { systemClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import type { SecretReference } from "../config/secret.ts";
import { type HttpClient, openHttpClient } from "../extract/http-client.ts";
import { createLimiter, type Limiter } from "../extract/limits.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Db } from "../load/db/db.ts";
import type { Context } from "./context.ts";
import { startSandboxService } from "./sandbox-service.ts";

/** The sandbox accepts almost any key. */
const SANDBOX_KEY = "sandbox";

/** HTTP client and limiter. */
interface OpenedService {
  readonly http: HttpClient;
  readonly limiter: Limiter;
  /** Creates a limiter without history. */
  readonly createLimiter: () => Limiter;
}

async function readSecret({ scrubber }: Context, secret: SecretReference | null): Promise<string> {
  if (secret === null) return SANDBOX_KEY;
  const key = await secret.read();
  scrubber.hide(key);
  return key;
}

/** Opens the configured service, and starts the sandbox if configured. Sends nothing. */
export async function openService(context: Context, config: Config): Promise<OpenedService> {
  const { service } = config;
  const { apiKey, userApiKey } = service;
  const baseUrl =
    service.baseUrl === "sandbox" ? await startSandboxService(context, config) : service.baseUrl;
  const http = openHttpClient({
    baseUrl,
    concurrency: service.concurrency,
    caFile: service.ca,
    stop: context.stop.signal,
    readKey: () => readSecret(context, apiKey),
    ...(userApiKey === null ? {} : { readUserKey: () => readSecret(context, userApiKey) }),
  });
  context.scope.defer("connections to the service", () => http.close());
  const openLimiter = () =>
    createLimiter({
      concurrency: service.concurrency,
      requestsPerSecond: service.requestsPerSecond,
      endpointRequestsPerSecond: Object.fromEntries(
        Object.entries(service.limits).flatMap(([path, { requestsPerSecond }]) =>
          ["GET", "POST"].map((method) => [`${method} ${path}`, requestsPerSecond]),
        ),
      ),
      clock: systemClock,
      service: http.origin,
    });
  return { http, limiter: openLimiter(), createLimiter: openLimiter };
}

/** Opens the configured service for jobs that write to this warehouse. */
export async function openJobServices(context: Context, config: Config, db: Db): Promise<JobServices> {
  const { log, progress, stop } = context;
  const { http, limiter } = await openService(context, config);
  return {
    config,
    db,
    http,
    limiter,
    clock: systemClock,
    log,
    signal: stop.signal,
    random: Math.random,
    progress,
  };
}
