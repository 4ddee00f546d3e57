import type { Db } from "../load/db/db.ts";
import { createSampleTable } from "../load/db/sample-table.ts";
import type { Config, InputConfig, InputField, JobConfig } from "../config/config.ts";
import { isLookupJob } from "../jobs/lookup/lookup-types.ts";
import { inputSourceOf } from "../jobs/lookup/lookup-spec.ts";
import type { Context } from "./context.ts";
import { countText } from "../figures.ts";
import { type SampleInput, sampleInputs } from "../sandbox/sample-inputs.ts";

/** Column of a sample table with its values. */
interface SampleColumn {
  readonly name: string;
  readonly type: "bigint" | "text" | "timestamptz";
  readonly value: (row: SampleInput) => string | null;
}

const join = (...parts: readonly (string | null)[]): string | null => {
  const text = parts.filter((part) => part !== null && part.trim() !== "").join(" ");
  return text === "" ? null : text;
};

/** Values of each field's columns, in order; other columns and fields are empty. */
const VALUES: Readonly<Partial<Record<InputField, readonly ((row: SampleInput) => string | null)[]>>> = {
  first_name: [(row) => row.first_name],
  last_name: [(row) => row.last_name],
  full_name: [(row) => join(row.first_name, row.last_name)],
  emails: [(row) => row.email, (row) => row.work_email],
  phones: [(row) => row.phone],
  linkedin_url: [(row) => row.linkedin],
  full_address: [(row) => join(row.street, row.city, row.state, row.zip)],
  address_line_1: [(row) => row.street],
  city: [(row) => row.city],
  state: [(row) => row.state],
  zipcode: [(row) => row.zip],
};

/** Creates missing input tables of these jobs in the warehouse, filled with rows for the sandbox. */
export async function createSampleTables(
  config: Config,
  jobs: readonly JobConfig[],
  db: Db,
  { log, notify }: Pick<Context, "log" | "notify">,
): Promise<void> {
  const { seed, people, inputRows: rows } = config.sandbox;
  for (const inputs of groupByTable(jobs.filter(isLookupJob).map((job) => job.input))) {
    const [input] = inputs;
    if (!input) continue;
    const columns = columnsOf(inputs);
    const source = await inputSourceOf(input, Object.keys(input.fields));
    const isNew = await createSampleTable(
      db,
      source,
      columns.map(({ name, type }) => ({ name, type })),
      rowsOf(columns, sampleInputs({ seed, people, rows })),
    );
    if (!isNew) continue;
    log.info({ input: input.name, rows }, "sample_table_created");
    notify(`Created the input table ${tableText(input)} with ${countText(rows, "sample row")}.`);
  }
}

function tableText({ source }: InputConfig): string {
  if (source.kind !== "table") return "";
  return source.schema === null ? source.table : `${source.schema}.${source.table}`;
}

/** Groups inputs that read the same table of the warehouse. */
function groupByTable(inputs: readonly InputConfig[]): readonly (readonly InputConfig[])[] {
  const groups = new Map<string, Set<InputConfig>>();
  for (const input of inputs) {
    if (input.source.kind !== "table" || input.connection !== null) continue;
    const place = JSON.stringify([input.source.schema, input.source.table]);
    groups.set(place, (groups.get(place) ?? new Set()).add(input));
  }
  return [...groups.values()].map((group) => [...group]);
}

/** All columns that the inputs read, without duplicates: key, mapped fields; also `updated_at`, as most tables have it. */
function columnsOf(inputs: readonly InputConfig[]): readonly SampleColumn[] {
  const columns = new Map<string, SampleColumn>();
  const add = (column: SampleColumn) => {
    if (!columns.has(column.name)) columns.set(column.name, column);
  };
  for (const { key } of inputs) {
    // The last key column is unique; those before it are the same for all rows (`[tenant_id, id]`).
    key.forEach((name, i) =>
      add({ name, type: "bigint", value: (row) => (i === key.length - 1 ? String(row.id) : "1") }),
    );
  }
  for (const { fields } of inputs) {
    // The cast restores the key type that Object.entries loses.
    for (const [field, names] of Object.entries(fields) as [InputField, readonly string[]][]) {
      names.forEach((name, i) => add({ name, type: "text", value: VALUES[field]?.[i] ?? (() => null) }));
    }
  }
  add({ name: "updated_at", type: "timestamptz", value: (row) => row.updated_at });
  return [...columns.values()];
}

function* rowsOf(
  columns: readonly SampleColumn[],
  rows: Iterable<SampleInput>,
): Generator<readonly (string | null)[]> {
  for (const row of rows) yield columns.map((column) => column.value(row));
}
