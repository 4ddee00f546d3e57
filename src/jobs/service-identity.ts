import { systemClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import { codeOf, FixConfigurationError, StopRunError } from "../errors.ts";
import { decompress } from "../extract/answer-body.ts";
import { readEnvelope } from "../extract/free-call.ts";
import type { HttpReply, HttpResponse } from "../extract/http-client.ts";
import { UNKNOWN_SEED, unusableMark } from "../extract/sandbox-mark.ts";
import type { Db } from "../load/db/db.ts";
import {
  isUnused,
  readIdentity,
  recordOrganization,
  recordServiceHost,
  replaceServiceHost,
  replaceUnusedHost,
} from "../load/db/identity.ts";
import { isMigrated, isUpToDate } from "../load/db/migrate.ts";
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
  if (known === undefined || mayBeSame(known, configured)) return;
  // The run records the other one.
  if ((await isUpToDate(db)) && (await isUnused(db))) return;
  throw anotherService(db, known, configured);
}

/** Error for a service that must not add to the data of this warehouse. */
function anotherService(db: Db, known: string, configured: string): FixConfigurationError {
  const held = isSandbox(known) ? trialText(known) : `belongs to ${known}`;
  return new FixConfigurationError(
    "another_service",
    `The warehouse ${held}, but service.base_url is ${configured}.`,
    [
      {
        path: "service.base_url",
        message: `is ${configured}, but the warehouse (${db.description}) ${held}`,
        hint: hintFor(known, configured),
      },
    ],
  );
}

const OTHER_SCHEMAS = "other names for warehouse.schema, ops_schema and state_schema";

const TRIAL_HINT = `Set ${OTHER_SCHEMAS}, or remove the trial: person-etl drop --trial. See docs/from-sandbox.md`;
const trialText = (known: string) => `contains a trial with invented people (${known})`;

/** True for an address of this machine. It may be a sandbox's: earlier versions recorded one as any service. */
function isLoopback(serviceHost: string): boolean {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?::\d+)?$/u.test(serviceHost);
}

/** Ways to use another service. */
function hintFor(known: string, configured: string): string {
  if (isSandbox(known)) return TRIAL_HINT;
  if (isSandbox(configured))
    return `Set ${OTHER_SCHEMAS}: invented people never get into the tables of real ones`;
  if (isLoopback(known)) {
    return (
      `Set ${OTHER_SCHEMAS}. If ${known} was a sandbox, run once more with it, which records the trial, ` +
      "then: person-etl drop --trial. See docs/from-sandbox.md"
    );
  }
  return `Use another warehouse or other schemas. If the same service got a new address, run person-etl migrate --accept-service ${configured}`;
}

/** Records a new address of the same service; returns the former one, or null before the first run. */
export async function acceptServiceHost(db: Db, accepted: string): Promise<string | null> {
  const known = (await readIdentity(db))?.serviceHost;
  if (known === undefined) return null;
  if (isSandbox(known)) {
    throw new FixConfigurationError(
      "another_service",
      `The warehouse ${trialText(known)}, which stays one: no address of a service can be accepted for it.`,
      [
        {
          path: "--accept-service",
          message: `can't be used: the warehouse (${db.description}) ${trialText(known)}`,
          hint: TRIAL_HINT,
        },
      ],
    );
  }
  const isMoved = known !== accepted;
  if (isMoved && (isSandbox(accepted) || (isLoopback(known) && !isLoopback(accepted)))) {
    throw anotherService(db, known, accepted);
  }
  await replaceServiceHost(db, accepted);
  return known;
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
  if (config.service.baseUrl === "sandbox") return await recordHost(services, configured);
  const known = await readIdentity(db);
  // The name of a sandbox differs from its address.
  const isRequired = known?.serviceHost !== configured;
  // An earlier run of this process may have expected another one.
  http.expectSandbox(undefined);
  const response = await askService(services, isRequired);
  if (response === null) {
    if (isRequired) throw unidentified(http.origin);
    log.debug({}, "service_unidentified");
    http.expectSandbox(null);
    return;
  }
  const { mark, organization } = response;
  const host = hostOf(config, http, mark);
  http.expectSandbox(mark);
  if (isFormerTrial(known, configured, response)) {
    await replaceServiceHost(db, host);
    const text = `The warehouse is recorded as a trial with invented people now (${host}; previously: ${configured}).`;
    log.warn({ text, service_host: host }, "trial_recognized");
  } else await recordHost(services, host);
  if (organization === null) log.debug({}, "organization_unknown");
  else await checkOrganization(services, runId, organization, host);
}

/** Compares the service that responds with the recorded one as a run does, without a change; nothing if it is silent. */
export async function checkIdentity({
  config,
  db,
  http,
  signal,
}: Omit<Services, "log" | "clock">): Promise<void> {
  const known = await readIdentity(db);
  const reply = await requestUsage(http, AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]));
  if (known === null || reply.kind === "failure") return;
  const response = await readUsage(reply);
  const host = hostOf(config, http, response.mark);
  if (isFormerTrial(known, serviceHostOf(config), response) || (await isUnused(db))) return;
  if (known.serviceHost !== host) throw anotherService(db, known.serviceHost, host);
  const { organization } = response;
  if (organization !== null && known.organization !== null && organization !== known.organization)
    throw anotherOrganization(db, known.organization, organization, host);
}

/** Name of the service that sent a response with this mark. */
function hostOf(config: Config, { origin }: Services["http"], mark: string | null): string {
  if (mark === UNKNOWN_SEED) throw unusableMark(origin);
  return mark === null ? serviceHostOf(config) : sandboxHost(mark, serviceHostOf(config));
}

/**
 * True for a warehouse that a sandbox filled before sandboxes named themselves: it has the same address and organization.
 * Without a recorded organization, only an address of this machine is taken for it.
 */
function isFormerTrial(
  known: Awaited<ReturnType<typeof readIdentity>>,
  configured: string,
  { mark, organization }: Awaited<ReturnType<typeof readUsage>>,
): boolean {
  if (mark === null || known?.serviceHost !== configured) return false;
  return known.organization === null ? isLoopback(configured) : known.organization === organization;
}

/** Records the service, or requires it to be the recorded one; a name that nothing came from is replaced. */
async function recordHost({ db, log }: Pick<Services, "db" | "log">, host: string): Promise<void> {
  const known = await recordServiceHost(db, host);
  if (known === host) return;
  if (!(await replaceUnusedHost(db, known, host))) throw anotherService(db, known, host);
  log.info({ service_host: host, previous: known }, "service_replaced");
}

function unidentified(origin: string): StopRunError {
  return new StopRunError(
    "service_unreachable",
    `The service at ${origin} sent no response, so nothing shows whether it is real or a sandbox. No record was sent or ` +
      "billed. Check service.base_url and the network with `person-etl check`, and run again.",
  );
}

async function checkOrganization({ db }: Services, runId: string, organization: string, host: string) {
  let known = await recordOrganization(db, runId, organization);
  if (known !== organization && (await replaceUnusedHost(db, host, host))) {
    known = await recordOrganization(db, runId, organization);
  }
  if (known !== organization) throw anotherOrganization(db, known, organization, host);
}

function anotherOrganization(
  db: Db,
  known: string,
  organization: string,
  host: string,
): FixConfigurationError {
  const others = "Use another warehouse or other schemas";
  return new FixConfigurationError(
    "another_organization",
    `The warehouse was filled for organization ${known}, but service.api_key is a key of organization ${organization}.`,
    [
      {
        path: "service.api_key",
        message: `is a key of another organization than the warehouse (${db.description})`,
        hint:
          isSandbox(host) || isLoopback(host)
            ? others
            : `${others}. If the organization only got another id, run person-etl migrate --accept-service ${host}`,
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
