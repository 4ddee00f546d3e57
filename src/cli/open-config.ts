import type { Config } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { locateConfig } from "../config/settings.ts";
import { jobTypes } from "../jobs/registry.ts";
import type { Context } from "./context.ts";

/** Loads the configuration and hides its secrets from the log. */
export async function openConfig(context: Context): Promise<Config> {
  const { options, env, log, scrubber } = context;
  const config = await loadConfig({
    jobTypes,
    file: locateConfig(options.config ?? undefined, env),
    env,
    overrides: { logLevel: options.logLevel ?? undefined },
  });
  log.setLevel(config.logLevel);
  const { apiKey, userApiKey } = config.service;
  for (const secret of [apiKey, userApiKey, config.privacy.erasureKey])
    if (secret) scrubber.hide(await secret.read());
  const connections = Object.values(config.connections);
  const urls = connections.map((connection) => (connection.type === "postgres" ? connection.url : null));
  for (const url of [config.warehouse.url, ...urls]) {
    if (url !== null && url !== "embedded") scrubber.hide(passwordIn(await url.read()));
  }
  for (const { path, message, line, hint } of config.warnings)
    log.warn({ path, message, line, hint }, "configuration");
  return config;
}

/** Decoded password of an address; empty if there is none. */
function passwordIn(url: string): string {
  try {
    return decodeURIComponent(new URL(url).password);
  } catch {
    return "";
  }
}
