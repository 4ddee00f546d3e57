import { setTimeout as delay } from "node:timers/promises";
import type { Config } from "../config/config.ts";
import { FixConfigurationError, StopRunError } from "../errors.ts";
import { decompress } from "../extract/answer-body.ts";
import { readEnvelope } from "../extract/free-call.ts";
import type { HttpResponse } from "../extract/http-client.ts";
import type { Db } from "../load/db/db.ts";
import { readIdentity, recordOrganization, recordServiceHost } from "../load/db/identity.ts";
import { isMigrated } from "../load/db/migrate.ts";
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

/** Seed of a sandbox; null for another service. */
const seedOf = (serviceHost: string) => /^sandbox:(\d+)(?:@|$)/u.exec(serviceHost)?.[1] ?? null;

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

/** Attempts to reach the service before the first run of a warehouse. */
const ATTEMPTS = 5;
const PAUSE_MS = 1000;
const TIMEOUT_MS = 15_000;

type Services = Pick<JobServices, "config" | "db" | "http" | "log" | "signal">;

/**
 * Compares the service and its organization with those that this warehouse was filled from, before anything is billed or
 * changed at the service; the first run records them. Asks for the free usage report. A run of a known warehouse continues
 * without a response, and its calls refuse those of another kind of service.
 */
export async function identifyService(services: Services, runId: string): Promise<void> {
  const { config, db, http, log } = services;
  const configured = serviceHostOf(config);
  if (config.service.baseUrl === "sandbox") return await recordHost(db, configured);
  const known = (await readIdentity(db))?.serviceHost ?? null;
  const response = await askService(services, known === null ? ATTEMPTS : 1);
  if (response === null) {
    if (known === null) throw unidentified(http.origin);
    log.debug({}, "service_unidentified");
    http.expectSandbox(seedOf(known));
    return;
  }
  const { sandboxSeed = null, organization } = response;
  http.expectSandbox(sandboxSeed);
  await recordHost(db, sandboxSeed === null ? configured : sandboxHost(sandboxSeed, configured));
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
    `The service at ${origin} sent no response to the first call of this warehouse. Nothing was sent or billed. Check ` +
      "service.base_url and the network with `person-etl check`, and run again.",
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

/** Asks for the usage report; null without a response. The organization is null if the report doesn't name it. */
async function askService({ http, signal }: Services, attempts: number) {
  const { method, path } = searchUsageEndpoint;
  const query = `${path}?days=1`;
  for (let attempt = 1; attempt <= attempts; attempt++) {
    if (attempt > 1) await delay(PAUSE_MS, undefined, { signal });
    const reply = await http.request({ method, path: query, body: null, signal, readTimeoutMs: TIMEOUT_MS });
    if (reply.kind === "failure") continue;
    reply.release();
    const { status, sandboxSeed } = reply;
    const organization = status === 200 ? await organizationIn(reply) : null;
    return sandboxSeed === undefined ? { organization } : { organization, sandboxSeed };
  }
  return null;
}

async function organizationIn({ body, contentEncoding }: HttpResponse): Promise<string | null> {
  const plain = await decompress(body, contentEncoding);
  if (plain.kind !== "plain") return null;
  return readOrganization(readEnvelope(plain.bytes, new DriftLog(searchUsageEndpoint.name))?.["org_id"]);
}
