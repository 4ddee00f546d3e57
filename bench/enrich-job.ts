import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildProgram } from "../test/support/build-program.ts";
import { type Figures, figuresOf, withServerCpu } from "./figures.ts";
import { measure } from "./measured-process.ts";
import type { Stage } from "./stage.ts";

/** Calls in flight of every measured client. */
export const CALLS_IN_FLIGHT = 8;
/** Command line of the checkout, whose files a profile can name. */
export const checkout = new URL("../bin/person-etl", import.meta.url).pathname;

/** Command line of the package, as users install it. */
export const launcher = await installPackage();

async function installPackage(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "person-etl-bench-package-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return await buildProgram(folder);
}

/** Settings of a configuration that differ between benchmarks. */
interface JobSettings {
  readonly type?: "enrich" | "resolve";
  /** Settings of `service`, in YAML. */
  readonly service?: string;
  /** Fields of the input and their columns, in YAML. */
  readonly fields?: string;
  /** Jobs, in YAML; one of the type by default. */
  readonly jobs?: string;
}

const ALL_FIELDS = `first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone],
              linkedin_url: linkedin, address_line_1: street, city: city, state: state, zipcode: zip`;

/** Environment with the variables of {@link writeConfig}. */
export function environmentOf(stage: Stage): NodeJS.ProcessEnv {
  return { ...process.env, BENCH_KEY: "bench", BENCH_URL: stage.databaseUrl };
}

/** Writes the configuration of a job, by default an enrich job with all fields; returns its path. */
export function writeConfig(stage: Stage, schema: string, settings: JobSettings = {}): string {
  const { type = "enrich", service = `concurrency: ${CALLS_IN_FLIGHT}`, fields = ALL_FIELDS } = settings;
  const { jobs = `${type}_customers: { type: ${type}, input: customers }` } = settings;
  const file = join(stage.folder, `${schema}.yaml`);
  writeFileSync(
    file,
    `service: { base_url: "${stage.serviceUrl}", api_key: "\${BENCH_KEY}", ${service} }
warehouse: { type: postgres, url: "\${BENCH_URL}", schema: ${schema}, ops_schema: ${schema}_ops, state_schema: ${schema}_state }
data_dir: ${join(stage.folder, "data")}
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { ${fields} }
jobs:
  ${jobs}
`,
  );
  return file;
}

/** Runs the job on the real command line; people are those matched, or unchanged if nothing was sent. */
export async function runEnrichJob(
  stage: Stage,
  what: string,
  config: string,
  extra: readonly string[] = [],
  program: string = launcher,
): Promise<Figures> {
  const args = ["--config", config, "--json", "--log-level", "warn", "run", "--yes", ...extra];
  const { result, cpu } = await withServerCpu(stage, () => measure(program, args, environmentOf(stage)));
  const report = JSON.parse(result.stdout) as {
    jobs: { records_matched: number; records_sent: number; records_unchanged: number }[];
  };
  const job = report.jobs[0];
  const people = job?.records_sent === 0 ? job.records_unchanged : (job?.records_matched ?? 0);
  return figuresOf(what, people, result, cpu);
}
