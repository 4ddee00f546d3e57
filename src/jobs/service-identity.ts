import { systemClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import { codeOf, FixConfigurationError, StopRunError } from "../errors.ts";
import { decompress } from "../extract/answer-body.ts";
import { readEnvelope } from "../extract/free-call.ts";
import type { HttpReply, HttpResponse } from "../extract/http-client.ts";
import { UNKNOWN_SEED, unusableMark } from "../extract/sandbox-mark.ts";
import type { Db } from "../load/db/db.ts";
import { readIdentity, recordOrganization, recordServiceHost } from "../load/db/identity.ts";
import { isMigrated } from "../load/db/migrate.ts";
import { createOutageReport, observe } from "../outage-report.ts";
import { DriftLog } from "../schemas/convert.ts";
import { readOrganization, searchUsageEndpoint } from "../schemas/usage.ts";
import type { JobServices } from "./services.ts";

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "https:": "443", "http:": "80" };

/** Service name in `warehouse_identity`: host and port, or the population of the sandbox that starts by itself. */
export function serviceHostOf(config: Pick<Config, "service" | "sandbox">): string {
  if (config.service.baseUrl === "sandbox") return sandboxHost(String(config.sandbox.seed));
  const url = new URL(config.service.baseUrl);
  const host = `${url.hostname}:${url.port || (DEFAULT_PORTS[url.protocol] ?? "")}`;
  // A host of this name is not the sandbox.
  return isSandbox(host) ? `${url.protocol}//${host}` : host;
}

/** Name of a sandbox; with its address unless it starts by itself. */
function sandboxHost(seed: string, address?: string): string {
  return `sandbox:${seed}${address === undefined ? "" : `@${address}`}`;
}

/** True for the name of a sandbox, whose people are invented. */
export function isSandbox(serviceHost: string): boolean {
  return /^sandbox:\d+(?:@|$)/u.test(serviceHost);
}

/** True if the data of a warehouse comes from a sandbox. */
export async function isTrial(db: Db): Promise<boolean> {
  return isSandbox((await readIdentity(db))?.serviceHost ?? "");
}

/** True if the names may be of one service: only the service itself says whether a sandbox is at its address. */
export function mayBeSame(known: string, configured: string): boolean {
  return known === configured || (isSandbox(known) && known.endsWith(`@${configured}`));
}

/**
 * Rejects, without a call, a service other than the one this warehouse's data comes from: its PIDs identify other people.
 * {@link identifyService} compares what the service says.
 */
export async function checkServiceHost(config: Config, db: Db): Promise<void> {
  if (!(await isMigrated(db))) return;
  const known = (await readIdentity(db))?.serviceHost;
  const configured = serviceHostOf(config);
  if (known !== undefined && !mayBeSame(known, configured)) throw anotherService(db, known, configured);
}

/** Error for a service that must not add to the data of this warehouse. */
export function anotherService(db: Db, known: string, configured: string): FixConfigurationError {
  const [held, hint] = contentOf(known, configured);
  return new FixConfigurationError(
    "another_service",
    `The warehouse contains ${held}, but service.base_url is ${configured}.`,
    [
      {
        path: "service.base_url",
        message: `is ${configured}, but the warehouse (${db.description}) contains ${held}`,
        hint,
      },
    ],
  );
}

const OTHER_SCHEMAS = "other names for warehouse.schema, ops_schema and state_schema";

/** Content of a warehouse, and the ways to use another service. */
function contentOf(known: string, configured: string): readonly [string, string] {
  if (isSandbox(known)) {
    const hint = `Set ${OTHER_SCHEMAS}, or remove the trial: person-etl drop --trial. See docs/from-sandbox.md`;
    return [`a trial with invented people (${known})`, hint];
  }
  const hint = isSandbox(configured)
    ? `Set ${OTHER_SCHEMAS}: invented people never get into the tables of real ones`
    : `Use another warehouse or other schemas. If the same service got a new address, run person-etl migrate --accept-service ${configured}`;
  return [`data from ${known}`, hint];
}

/** Longest wait for a response that a run can't do without, in all attempts: as long as for a service never reached. */
const REQUIRED_WITHIN_MS = 25_000;
const PAUSE_MS = 1000;
/** Longest wait for one response, with its body. */
const TIMEOUT_MS = 15_000;

type Services = Pick<JobServices, "config" | "db" | "http" | "log" | "signal" | "clock">;

/**
 * Compares the service and its organization with those that this warehouse was filled from, before anything is billed or
 * changed at the service; the first run records them. Asks for the free usage report. Only a run of a known real service
 * continues without a response, and its calls refuse those of a sandbox: after a trial, the first call to a real service
 * would be billed.
 */
export async function identifyService(services: Services, runId: string): Promise<void> {
  const { config, db, http, log } = services;
  const configured = serviceHostOf(config);
  if (config.service.baseUrl === "sandbox") return await recordHost(db, configured);
  const known = (await readIdentity(db))?.serviceHost ?? null;
  const isRequired = known === null || isSandbox(known);
  const response = await askService(services, isRequired);
  if (response === null) {
    if (isRequired) throw unidentified(http.origin);
    log.debug({}, "service_unidentified");
    http.expectSandbox(null);
    return;
  }
  const { mark, organization } = response;
  if (mark === UNKNOWN_SEED) throw unusableMark(http.origin);
  http.expectSandbox(mark);
  await recordHost(db, mark === null ? configured : sandboxHost(mark, configured));
  if (organization === null) log.debug({}, "organization_unknown");
  else await checkOrganization(services, runId, organization);
}

/** Records the service, or requires it to be the recorded one. */
async function recordHost(db: Db, host: string): Promise<void> {
  const known = await recordServiceHost(db, host);
  if (known !== host) throw anotherService(db, known, host);
}

function unidentified(origin: string): StopRunError {
  return new StopRunError(
    "service_unreachable",
    `The service at ${origin} sent no response, so nothing shows whether it is real or a sandbox. No record was sent or ` +
      "billed. Check service.base_url and the network with `person-etl check`, and run again.",
  );
}

async function checkOrganization({ config, db }: Services, runId: string, organization: string) {
  const known = await recordOrganization(db, runId, organization);
  if (known === organization) return;
  throw new FixConfigurationError(
    "another_organization",
    `The warehouse was filled for organization ${known}, but service.api_key is a key of organization ${organization}.`,
    [
      {
        path: "service.api_key",
        message: `is a key of another organization than the warehouse (${db.description})`,
        hint:
          "Use another warehouse or other schemas. If the organization only got another id, " +
          `run person-etl migrate --accept-service ${serviceHostOf(config)}`,
      },
    ],
  );
}

/** No response in time. */
class NoResponseError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(`No response (${code}).`);
    this.code = code;
  }
}

/** Asks for the usage report, and reports a silent service; null without a response. */
async function askService({ http, log, signal, clock }: Services, isRequired: boolean) {
  const subject = `The service at ${http.origin}`;
  const outage = createOutageReport({ clock: systemClock, log, name: "service", subject });
  const waitMs = isRequired ? REQUIRED_WITHIN_MS : TIMEOUT_MS;
  const untilMs = clock.now() + waitMs;
  const ask = async () => {
    for (;;) {
      const leftMs = Math.max(1, Math.min(TIMEOUT_MS, Math.ceil(untilMs - clock.now())));
      const reply = await requestUsage(http, AbortSignal.any([signal, AbortSignal.timeout(leftMs)]));
      if (reply.kind === "response") return await readUsage(reply);
      signal.throwIfAborted();
      if (!isRequired || clock.now() + PAUSE_MS >= untilMs) throw new NoResponseError(reply.code);
      await clock.sleep(PAUSE_MS, signal);
    }
  };
  try {
    return await observe(outage, (error) => codeOf(error) ?? "NO_RESPONSE", ask, waitMs);
  } catch (error) {
    if (error instanceof NoResponseError) return null;
    throw error;
  } finally {
    outage.stop();
  }
}

async function requestUsage(http: Services["http"], signal: AbortSignal): Promise<HttpReply> {
  const { method, path } = searchUsageEndpoint;
  return await http.request({
    method,
    path: `${path}?days=1`,
    body: null,
    signal,
    readTimeoutMs: TIMEOUT_MS,
  });
}

/** Reads what a response says of its sender: mark of a sandbox, and organization; null if it doesn't name it. */
async function readUsage(reply: HttpResponse) {
  reply.release();
  const organization = reply.status === 200 ? await organizationIn(reply) : null;
  return { mark: reply.sandboxSeed ?? null, organization };
}

async function organizationIn({ body, contentEncoding }: HttpResponse): Promise<string | null> {
  const plain = await decompress(body, contentEncoding);
  if (plain.kind !== "plain") return null;
  return readOrganization(readEnvelope(plain.bytes, new DriftLog(searchUsageEndpoint.name))?.["org_id"]);
}
