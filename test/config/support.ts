import { jobTypes } from "../../src/jobs/registry.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { loadConfig, type LoadOptions } from "../../src/config/load-config.ts";
import { FixConfigurationError, type Problem } from "../../src/errors.ts";

/** Temporary folder of one test. */
export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "person-etl-config-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Loads this text as `config.yaml` in a temporary folder. */
export async function load(text: string | Uint8Array, options: Partial<LoadOptions> = {}): Promise<Config> {
  const file = join(await makeFolder(), "config.yaml");
  await writeFile(file, text);
  return loadConfig({ jobTypes, file, env: {}, ...options });
}

/** Error of a refused text. */
export async function refusal(
  text: string | Uint8Array,
  options: Partial<LoadOptions> = {},
): Promise<FixConfigurationError> {
  return refusalOf(load(text, options));
}

/** Error of a failed load. */
export async function refusalOf(loading: Promise<unknown>): Promise<FixConfigurationError> {
  try {
    await loading;
  } catch (error) {
    if (error instanceof FixConfigurationError) return error;
    throw error;
  }
  throw new Error("The configuration was accepted.");
}

/** Problems of a text, each as `line path: message (hint)`. */
export async function problemsOf(
  text: string,
  options: Partial<LoadOptions> = {},
): Promise<readonly string[]> {
  return (await refusal(text, options)).problems.map(lineOf);
}

function lineOf({ line, path, message, hint }: Problem): string {
  return `${line ?? "-"} ${path}: ${message} (${hint})`;
}

/** A valid configuration; tests change lines of it. */
export const fine = `service:
  base_url: sandbox
warehouse:
  type: postgres
  url: embedded
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, last_name: last_name, emails: [email] }
jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }
`;

/** {@link fine} with one piece of text replaced. */
export function fineBut(before: string, after: string): string {
  if (!fine.includes(before)) throw new Error(`The fine configuration has no ${before}`);
  return fine.replace(before, after);
}
