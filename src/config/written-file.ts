import { z } from "zod";
import type { WrittenJob } from "./schema/jobs.ts";

const word = z.string().optional().catch(undefined);
const anything = z.unknown().optional();
const mapping = z.record(z.string(), z.unknown());

const input = z.object({
  table: anything,
  sql: anything,
  job: anything,
  search: anything,
  connection: anything,
  key: anything,
  fields: mapping.optional().catch(undefined),
});

const service = z.object({
  base_url: word,
  api_key: anything,
  allow_insecure: z.boolean().catch(false).default(false),
});
const warehouse = z.object({ type: word, schema: word, ops_schema: word, state_schema: word });

const destination = z.object({
  path: word,
  project: word,
  dataset: word,
  tables: z.array(z.string()).optional().catch(undefined),
});

const file = z.object({
  service: service.optional().catch(undefined),
  warehouse: warehouse.optional().catch(undefined),
  publish: z.record(z.string(), destination.optional().catch(undefined)).catch({}).default({}),
  connections: mapping.catch({}).default({}),
  inputs: z.record(z.string(), input.optional().catch(undefined)).catch({}).default({}),
  jobs: z.record(z.string(), mapping.optional().catch(undefined)).catch({}).default({}),
  budgets: z.record(z.string(), mapping.optional().catch(undefined)).catch({}).default({}),
  prices: mapping.optional().catch(undefined),
  http: z.object({ bind: word, token: anything }).optional().catch(undefined),
});

/** A file as written, parsed leniently for rules, so that one invalid value doesn't hide other problems. */
export type WrittenFile = z.output<typeof file>;

/** Reads a tree; sections that aren't mappings are empty. */
export function readWrittenFile(tree: unknown): WrittenFile {
  const result = file.safeParse(tree);
  return result.success ? result.data : file.parse({});
}

/** Entries of a section with a readable value. */
export function entriesOf<T>(section: Readonly<Record<string, T | undefined>>): readonly [string, T][] {
  return Object.entries(section).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, T]],
  );
}

/** Entry by name; never an inherited one (`constructor`). */
export function entryNamed<T>(section: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(section, name) ? section[name] : undefined;
}

/** True unless a job is disabled. */
export function isEnabled(job: WrittenJob): boolean {
  return job["enabled"] !== false;
}
