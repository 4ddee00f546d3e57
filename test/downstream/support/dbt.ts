import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installPython } from "../../support/python-environment.ts";

const run = promisify(execFile);

/** Folder of the dbt package. */
export const PACKAGE = fileURLToPath(new URL("../../../dbt/", import.meta.url));

/** A dbt project on one engine. */
export interface DbtProject {
  /** Folder of its profile, log and compiled statements. */
  readonly folder: string;
  /** Output of the profile, in the words of the adapter. */
  readonly output: Readonly<Record<string, unknown>>;
  readonly vars: Readonly<Record<string, unknown>>;
  /** Environment of an engine that runs within dbt. */
  readonly env?: Readonly<Record<string, string>>;
  /** Folders and archives of further Python modules. */
  readonly modules?: readonly string[];
}

/** Outcome of one node: a model, test, snapshot or source. */
export interface DbtResult {
  readonly unique_id: string;
  /** `success`, `pass`, `error`, `fail`, `skipped`. */
  readonly status: string;
  readonly message: string | null;
}

/** Outcome of a dbt command. */
export interface DbtRun {
  readonly code: number;
  readonly output: string;
  readonly seconds: number;
  /** Empty for commands that run no nodes. */
  readonly results: readonly DbtResult[];
}

/** Runs a dbt command on the package. */
export async function runDbt(project: DbtProject, args: readonly string[]): Promise<DbtRun> {
  const { python, home } = await installDbt();
  const { folder } = project;
  const target = join(folder, "target");
  await mkdir(folder, { recursive: true });
  const profile = { person_etl: { target: "test", outputs: { test: project.output } } };
  await writeFile(join(folder, "profiles.yml"), JSON.stringify(profile));
  const startedMs = performance.now();
  const { code, output } = await execute(
    join(dirname(python), "dbt"),
    [...args, "--vars", JSON.stringify(project.vars)],
    {
      PATH: process.env["PATH"],
      HOME: home,
      ...project.env,
      PYTHONPATH: [fileURLToPath(new URL("python", import.meta.url)), ...(project.modules ?? [])].join(":"),
      DBT_PROJECT_DIR: PACKAGE,
      DBT_PROFILES_DIR: folder,
      DBT_TARGET_PATH: target,
      DBT_LOG_PATH: join(folder, "logs"),
      DBT_SEND_ANONYMOUS_USAGE_STATS: "false",
      DBT_USE_COLORS: "false",
    },
  );
  const seconds = Math.round((performance.now() - startedMs) / 100) / 10;
  const results = await readFile(join(target, "run_results.json"), "utf8").catch(() => null);
  // dbt's artifact.
  const document = JSON.parse(results ?? '{"results":[]}') as { results: readonly DbtResult[] };
  return { code, output, seconds, results: document.results };
}

/** Extensions of DuckDB that read Iceberg tables in S3. */
const EXTENSIONS = ["avro", "httpfs", "iceberg"];

/** Installs dbt with the adapters of the engines; about 800 MB. */
function installDbt() {
  return installPython({
    name: "dbt",
    minors: [10, 13],
    before: "2026-11-20",
    installs: [
      [
        "dbt-core==1.11.16",
        "dbt-postgres==1.11.0",
        "dbt-bigquery==1.12.1",
        "dbt-duckdb==1.11.1",
        "dbt-spark==1.11.0",
        // The version that writes published files.
        "duckdb==1.5.5",
        "duckdb-extensions==1.5.5",
        ...EXTENSIONS.map((name) => `duckdb-extension-${name}==1.5.5`),
      ],
    ],
    // Within the home of dbt's processes.
    finish: ({ python, home: HOME }) =>
      run(
        python,
        [
          "-c",
          `import duckdb_extensions as d; [d.import_extension(n) for n in ${JSON.stringify(EXTENSIONS)}]`,
        ],
        { env: { HOME } },
      ),
  });
}

function execute(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    execFile(program, args, { env, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      const code = typeof error?.code === "number" ? error.code : error ? -1 : 0;
      resolve({ code, output: stdout + stderr });
    });
  });
}
