import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join, relative, sep } from "node:path";
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

/** Command as the user types it here: its name, or the path of its launcher in a checkout that isn't on PATH. */
export const programName =
  isCheckout && !isOnPath() ? pathFrom(process.cwd(), "bin/person-etl") : "person-etl";

function isOnPath(): boolean {
  const launcher = realpathSync(new URL("bin/person-etl", packageRoot));
  const found = (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "person-etl"))
    .find((file) => existsSync(file));
  return found !== undefined && realpathSync(found) === launcher;
}

/** Path of a file of this package: relative if it is below the folder. */
function pathFrom(folder: string, file: string): string {
  const path = fileURLToPath(new URL(file, packageRoot));
  const below = relative(folder, path);
  return below.startsWith("..") ? path : below;
}

/** Path of a page of `docs/`. */
export function docsPath(page: string): string {
  return pathFrom(process.cwd(), `docs/${page}`);
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
