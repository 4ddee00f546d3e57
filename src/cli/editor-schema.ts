import { dirname, relative, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { findPackage } from "./version.ts";

const SCHEMA = "docs/reference/config.schema.json";

/**
 * Address of the JSON Schema for the first line of a configuration: a path if the file is in the same checkout or project as
 * this package, so that it works on every machine, else the URL of the installed file.
 */
export function schemaFor(configFile: string, root = findPackage()?.root): string {
  if (root === undefined) return SCHEMA;
  const schema = fileURLToPath(new URL(SCHEMA, root));
  const [project = ""] = fileURLToPath(root).split(`${sep}node_modules${sep}`);
  const folder = dirname(configFile);
  const path = relative(folder, schema).split(sep).join("/");
  const isInside = `${folder}${sep}`.startsWith(project.endsWith(sep) ? project : `${project}${sep}`);
  // Editors read the address up to a blank.
  return isInside && !/\s/u.test(path) ? path : pathToFileURL(schema).href;
}
