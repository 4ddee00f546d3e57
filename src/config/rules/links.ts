import { z } from "zod";

const word = z.string().optional().catch(undefined);
const words = z
  .union([z.string().transform((one) => [one]), z.array(z.string())])
  .catch([])
  .default([]);
const anything = z.unknown().optional();
const mapping = z.record(z.string(), z.unknown());

const input = z.object({
  table: anything,
  sql: anything,
  connection: word,
  key: anything,
  fields: mapping.optional().catch(undefined),
});

const segment = z.object({ id: anything, job: word });
const search = z.object({ sql: anything, connection: word });

const job = z.object({
  type: word,
  enabled: z.boolean().catch(true).default(true),
  input: word,
  after: words,
  pid_from: word,
  valid_emails_from: word,
  segments: z
    .array(segment.catch({ id: undefined, job: undefined }))
    .catch([])
    .default([]),
  connection: word,
  name: word,
  segment_id: word,
  searches: mapping.catch({}).default({}),
  job_ids: search.optional().catch(undefined),
});

const service = z.object({
  base_url: word,
  api_key: anything,
  allow_insecure: z.boolean().catch(false).default(false),
});
const warehouse = z.object({ type: word, schema: word, ops_schema: word });

/** The parts of the file that speak of one another, read leniently: one wrong value must not hide another problem. */
const links = z.object({
  service: service.optional().catch(undefined),
  warehouse: warehouse.optional().catch(undefined),
  connections: mapping.catch({}).default({}),
  inputs: z.record(z.string(), input.optional().catch(undefined)).catch({}).default({}),
  jobs: z.record(z.string(), job.optional().catch(undefined)).catch({}).default({}),
  budgets: z.object({ unlock: anything }).optional().catch(undefined),
  privacy: anything,
  http: z.object({ bind: word, token: anything }).optional().catch(undefined),
});

/** What {@link readLinks} finds. */
export type Links = z.output<typeof links>;
/** A job as far as it speaks of other parts. */
export type JobLinks = z.output<typeof job>;
/** An input as far as jobs depend on it. */
export type InputLinks = z.output<typeof input>;

/** Reads the links of a tree; of what isn't a mapping, none. */
export function readLinks(tree: unknown): Links {
  const result = links.safeParse(tree);
  return result.success ? result.data : links.parse({});
}

/** The entries of a section whose value could be read, with their names. */
export function entriesOf<T>(section: Readonly<Record<string, T | undefined>>): readonly [string, T][] {
  return Object.entries(section).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as [string, T]],
  );
}

/** The entry of that name; never one of the object's own making (`constructor`). */
export function entryNamed<T>(section: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(section, name) ? section[name] : undefined;
}
