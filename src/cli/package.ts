import { readFileSync } from "node:fs";
import { basename, dirname, relative, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** True if running from the sources. */
const isCheckout = import.meta.url.endsWith(".ts");

/** Folder of this package; the build has all files in one folder. */
const packageRoot = new URL(isCheckout ? "../../" : "../", import.meta.url);

/** Returns the version of this package. */
export function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("package.json", packageRoot), "utf8"));
  return String(version);
}

/** Command name for hints, to copy from the terminal: in a checkout, the path of its launcher. */
export const programName = isCheckout ? launcherFrom(process.cwd()) : "person-etl";

function launcherFrom(folder: string): string {
  const launcher = fileURLToPath(new URL("../../bin/person-etl", import.meta.url));
  const path = relative(folder, launcher);
  return path.startsWith("..") ? launcher : path;
}

/** Arguments that name a configuration file, for commands to copy; none for the default one in this folder. */
export function configFlag(file: string): readonly string[] {
  if (dirname(file) !== process.cwd()) return ["--config", file];
  return basename(file) === "config.yaml" ? [] : ["--config", basename(file)];
}

/** File of the sandbox service. */
export const sandboxProgram = fileURLToPath(
  new URL(isCheckout ? "packages/sandbox/src/main.ts" : "dist/sandbox.js", packageRoot),
);

const SCHEMA = "docs/reference/config.schema.json";

/**
 * Address of the JSON Schema for the first line of a configuration: a path if the file is in the same checkout or project as
 * this package, so that it works on every machine, else the URL of the installed file.
 */
export function schemaFor(configFile: string, root = packageRoot): string {
  const schema = fileURLToPath(new URL(SCHEMA, root));
  const [project = ""] = fileURLToPath(root).split(`${sep}node_modules${sep}`);
  const folder = dirname(configFile);
  const path = relative(folder, schema).split(sep).join("/");
  const isInside = `${folder}${sep}`.startsWith(project.endsWith(sep) ? project : `${project}${sep}`);
  // Editors read the address up to a blank.
  return isInside && !/\s/u.test(path) ? path : pathToFileURL(schema).href;
}
