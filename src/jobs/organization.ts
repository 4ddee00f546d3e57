import type { JobConfig } from "../config/config.ts";
import { FixConfigurationError } from "../errors.ts";
import { decompress } from "../extract/answer-body.ts";
import { readEnvelope } from "../extract/free-call.ts";
import { recordOrganization } from "../load/db/identity.ts";
import { DriftLog } from "../schemas/drift.ts";
import { readOrganization, searchUsageEndpoint } from "../schemas/usage.ts";
import { jobTypeOf } from "./registry.ts";
import { serviceHostOf } from "./service-host.ts";
import type { JobServices } from "./services.ts";

const TIMEOUT_MS = 15_000;

/**
 * Refuses a key of another organization than the one the warehouse was filled from, before anything is billed or changed
 * at the service. Without an answer of the free usage report the run continues.
 */
export async function checkOrganization(
  services: Pick<JobServices, "config" | "db" | "http" | "log" | "signal">,
  jobs: readonly JobConfig[],
  runId: string,
): Promise<void> {
  const { config, db, log } = services;
  // The sandbox has no keys. Other feeds that only read can't bill.
  const isAsked = jobs
    .flatMap((job) => jobTypeOf(job).endpoints)
    .some(({ method, name }) => method === "POST" || name === searchUsageEndpoint.name);
  if (config.service.baseUrl === "sandbox" || !isAsked) return;
  const organization = await askOrganization(services);
  if (organization === null) {
    log.debug({}, "organization_unknown");
    return;
  }
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

/** Requests the key's organization; null if the response doesn't have it. */
async function askOrganization({
  http,
  signal,
}: Pick<JobServices, "http" | "signal">): Promise<string | null> {
  const { method, path } = searchUsageEndpoint;
  const reply = await http.request({
    method,
    path: `${path}?days=1`,
    body: null,
    signal,
    readTimeoutMs: TIMEOUT_MS,
  });
  if (reply.kind === "failure") return null;
  reply.release();
  if (reply.status !== 200) return null;
  const plain = await decompress(reply.body, reply.contentEncoding);
  if (plain.kind !== "plain") return null;
  return readOrganization(readEnvelope(plain.bytes, new DriftLog(searchUsageEndpoint.name))?.["org_id"]);
}
