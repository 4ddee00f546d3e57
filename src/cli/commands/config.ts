import { stringify } from "yaml";
import { openConfig } from "../app.ts";
import { type Context, dataResult } from "../command.ts";
import { readSettings } from "../../config/load-config.ts";
import { valueAt } from "../../config/schema/settings.ts";
import { jobTypes } from "../../jobs/registry.ts";

/** Prints the configuration in effect, as a file that means the same. */
export async function show(context: Context) {
  const { file, logLevel, dataDir } = await openConfig(context);
  const read = await readSettings({ file, jobTypes });
  const written = String(valueAt(read, ["data_dir"]));
  const isInEnvironment = (context.env["PERSON_ETL_DATA_DIR"] ?? "").trim() !== "";
  const folder = written.includes("${") && !isInEnvironment ? written : dataDir;
  const settings: Readonly<Record<string, unknown>> = { ...read, log_level: logLevel, data_dir: folder };
  return dataResult({ file, settings }, `# ${file}\n${stringify(settings, { lineWidth: 0 }).trimEnd()}`);
}
