import { stringify } from "yaml";
import { openConfig } from "../app.ts";
import { type Context, result } from "../command.ts";
import { readSettings } from "../../config/load-config.ts";
import { jobTypes } from "../../jobs/registry.ts";

/** Prints the configuration in effect, as a file that means the same. */
export async function show(context: Context) {
  const { file, logLevel, dataDir } = await openConfig(context);
  const read = await readSettings({ file, jobTypes, env: context.env });
  const settings: Readonly<Record<string, unknown>> = { ...read, log_level: logLevel, data_dir: dataDir };
  return result({ file, settings }, `# ${file}\n${stringify(settings, { lineWidth: 0 }).trimEnd()}`);
}
