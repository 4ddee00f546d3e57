import type { Config } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { locateConfig } from "../config/settings.ts";
import { jobTypes } from "../jobs/registry.ts";
import { readPostgresAddress } from "../postgres-address.ts";
import type { Context } from "./context.ts";
import { lstat, stat } from "node:fs/promises";
import { FixConfigurationError } from "../errors.ts";

/** Loads the configuration and hides its secrets from all output. */
export async function openConfig(context: Context): Promise<Config> {
  const { options, env, log, scrubber } = context;
  const config = await loadConfig({
    jobTypes,
    file: locateConfig(options.config ?? undefined, env),
    env,
    overrides: { logLevel: options.logLevel ?? undefined },
  });
  log.setLevel(config.logLevel);
  await refuseForeignFolder(config.dataDir);
  const { apiKey, userApiKey } = config.service;
  const secrets = [apiKey, userApiKey, config.privacy.erasureKey, config.http.token, config.alerts?.webhook];
  for (const secret of secrets) if (secret) scrubber.hide(await secret.read());
  const connections = Object.values(config.connections);
  const urls = connections.map((connection) => (connection.type === "postgres" ? connection.url : null));
  for (const url of [config.warehouse.url, ...urls]) {
    if (url !== null && url !== "embedded") scrubber.hide(readPostgresAddress(await url.read()).password);
  }
  for (const { path, message, line, hint } of config.warnings)
    log.warn({ path, message, line, hint }, "configuration");
  return config;
}

/** Refuses, as root, a data_dir of another user, whose links could lead writes to any file of the system. */
export async function refuseForeignFolder(dataDir: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (const look of [lstat, stat]) {
    const found = await look(dataDir).catch(() => null);
    if (found === null || found.uid === 0) continue;
    throw new FixConfigurationError(
      "data_dir_owner",
      `data_dir ${dataDir} belongs to another user (uid ${found.uid}), and root uses only folders owned by root.`,
      [
        {
          path: "data_dir",
          message: `belongs to uid ${found.uid}`,
          hint: "run person-etl as that user, or choose another data_dir",
        },
      ],
    );
  }
}
