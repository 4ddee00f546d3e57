import { stringify } from "yaml";
import { columnsText } from "../config/template.ts";

/** A setting that names columns, as a line of the configuration: `key: [id, "Kd Nr"]`. */
export function columnsSetting(name: string, columns: readonly string[]): string {
  return `${name}: ${columnsText(columns)}`;
}

/** A setting with SQL, as a line of the configuration. */
export function sqlSetting(name: string, sql: string): string {
  return `${name}: ${stringify(sql.replaceAll("${", "$$${"), { blockQuote: false, lineWidth: 0 }).trimEnd()}`;
}
