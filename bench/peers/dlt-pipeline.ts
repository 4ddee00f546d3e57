import { writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Fields } from "../../src/schemas/field.ts";
import { personFields, personLists } from "../../src/schemas/person.ts";
import { installPython, type PythonEnvironment } from "../../test/support/python-environment.ts";
import { CALLS_IN_FLIGHT } from "../enrich-job.ts";
import { type Figures, figuresOf, withServerCpu } from "../figures.ts";
import { measure } from "../measured-process.ts";
import { BATCH, type Stage } from "../stage.ts";

/** One way to write the job with dlt. */
export interface DltVariant {
  readonly name: string;
  /** Schema of its tables. */
  readonly dataset: string;
  /** `flattened`: tables are built by hand, as Arrow; `automatic`: dlt normalizes the answer's objects. */
  readonly normalizing: "flattened" | "automatic";
  /** Format of the loaded files: COPY of CSV, or Parquet through ADBC. */
  readonly format: "csv" | "parquet";
}

/** Appends into tables without indexes, the fastest first night of dlt; or merges by key with a strategy. */
export type Disposition = "append" | "delete-insert" | "upsert";

const LOCK = new URL("requirements.txt", import.meta.url);

/** Installs dlt and what it needs as the lock file states, by hash; about 300 MB. */
export async function installDlt(): Promise<PythonEnvironment> {
  const hashed = await readFile(LOCK, "utf8");
  return installPython({ name: "dlt", minors: [11, 13], before: "2026-11-20", installs: [], hashed });
}

/** Versions of packages in the lock file. */
export async function versionsOfDlt(names: readonly string[]): Promise<Record<string, string>> {
  const lock = await readFile(LOCK, "utf8");
  const versions = [...lock.matchAll(/^([\w.-]+)(?:\[\w+\])?==([\w.]+)/gmu)];
  return Object.fromEntries(
    versions
      .map(([, name = "", version = ""]) => [name, version] as const)
      .filter(([name]) => names.includes(name)),
  );
}

const typesOf = (fields: Fields) => Object.entries(fields).map(([name, { type }]) => [name, type] as const);

/** Tables and columns that a peer fills: the service's fields, as person-etl declares them, without its derived columns. */
const declaration = {
  person: [["service_pid", "text"], ...typesOf(personFields)],
  lists: Object.fromEntries(
    Object.entries(personLists).map(([name, list]) => [
      name,
      {
        table: list.table,
        ...("discriminator" in list ? { discriminator: list.discriminator } : {}),
        fields: typesOf(list.fields),
      },
    ]),
  ),
};

const program = fileURLToPath(new URL("enrich_with_dlt.py", import.meta.url));

/** Runs the pipeline once. @param people number of people in the answers */
export async function runDlt(
  stage: Stage,
  { python, home }: PythonEnvironment,
  variant: DltVariant,
  disposition: Disposition,
  people: number,
): Promise<Figures> {
  const declared = join(stage.folder, "declaration.json");
  writeFileSync(declared, JSON.stringify(declaration));
  const options = {
    service: stage.serviceUrl,
    postgres: stage.databaseUrl,
    dataset: variant.dataset,
    "work-folder": join(stage.folder, "dlt"),
    declaration: declared,
    batch: String(BATCH),
    normalizing: variant.normalizing,
    disposition,
    format: variant.format,
  };
  const env = {
    ...process.env,
    HOME: home,
    EXTRACT__WORKERS: String(CALLS_IN_FLIGHT),
    // One per core; dlt's default is one.
    NORMALIZE__WORKERS: "2",
    RUNTIME__DLTHUB_TELEMETRY: "false",
    RUNTIME__LOG_LEVEL: "ERROR",
  };
  const args = [program, ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value])];
  const { result, cpu } = await withServerCpu(stage, () => measure(python, args, env));
  return figuresOf(variant.name, people, result, cpu);
}
