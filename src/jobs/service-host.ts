import type { Db } from "../load/db/db.ts";
import { readIdentity } from "../load/db/identity.ts";
import { isMigrated } from "../load/db/setup.ts";
import type { Config } from "../config/config.ts";
import { FixConfigurationError } from "../errors.ts";

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "https:": "443", "http:": "80" };

/** Service name in `warehouse_identity`: host and port, or the population of the sandbox. */
export function serviceHostOf(config: Pick<Config, "service" | "sandbox">): string {
  if (config.service.baseUrl === "sandbox") return `sandbox:${config.sandbox.seed}`;
  const url = new URL(config.service.baseUrl);
  return `${url.hostname}:${url.port || (DEFAULT_PORTS[url.protocol] ?? "")}`;
}

/** Rejects a service other than the one this warehouse's data comes from: its PIDs identify other people. */
export async function checkServiceHost(config: Config, db: Db): Promise<void> {
  if (!(await isMigrated(db))) return;
  const known = (await readIdentity(db))?.serviceHost;
  const configured = serviceHostOf(config);
  if (known === undefined || known === configured) return;
  throw new FixConfigurationError(
    "another_service",
    `The warehouse contains data from ${known}, but service.base_url is ${configured}.`,
    [
      {
        path: "service.base_url",
        message: `is ${configured}, but the warehouse (${db.description}) contains data from ${known}`,
        hint:
          "Use another warehouse or other schemas. If the same service got a new address, " +
          `run person-etl migrate --accept-service ${configured}`,
      },
    ],
  );
}
