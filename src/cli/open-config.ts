import type { Config } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { locateConfig } from "../config/settings.ts";
import { jobTypes } from "../jobs/registry.ts";
import { readPostgresAddress } from "../postgres-address.ts";
import type { Context } from "./context.ts";
import { FixConfigurationError } from "../errors.ts";
import { otherWriterOf } from "../other-writer.ts";

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

/** Refuses, as root, a data_dir that other users can change. */
export async function refuseForeignFolder(dataDir: string): Promise<void> {
  const why = await otherWriterOf(dataDir);
  if (why === null) return;
  throw new FixConfigurationError(
    "data_dir_owner",
    `data_dir ${dataDir} ${why}, and root uses only folders of its own that nobody else can write to.`,
    [
      {
        path: "data_dir",
        message: why,
        hint: "run person-etl as another user, correct owner and mode (chown root, chmod go-w), or choose another data_dir",
      },
    ],
  );
}
