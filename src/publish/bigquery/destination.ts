import { type ClientOptions, openClient } from "../../bigquery/client.ts";
import { explainFailure, orMissing, type NamedProject } from "../../bigquery/failure.ts";
import { insertJob, openSession, queryOf, resultsOf, runJob, type Session } from "../../bigquery/session.ts";
import { quoteIdentifier, quoteLiteral } from "../../bigquery/sql.ts";
import { FixConfigurationError } from "../../errors.ts";
import type { ColumnType } from "../../schemas/field.ts";
import type { Column } from "../../schemas/table.ts";
import type {
  BatchRef,
  CommitOutcome,
  Destination,
  Measure,
  Position,
  PublishedTable,
  StagedBatch,
  TableChange,
} from "../destination.ts";
import { checkDestination } from "./check.ts";
import { type BillingLimit, createBillingLimit, KEYS_PER_BATCH } from "./cost.ts";
import {
  type DatasetNames,
  listBoth,
  migrateDatasets,
  type OpenDatasets,
  openDatasets,
  positionTable,
  tableName,
} from "./datasets.ts";
import { dropStaging, stageFiles, stagingTable } from "./stage.ts";

/** Last row of the script. */
interface Outcome {
  readonly moved: number;
  readonly id: string | null;
}

/** Applies a staged batch in one transaction, which first moves the position from the predecessor. */
async function commitBatch(
  context: OpenDatasets,
  batch: StagedBatch,
  limit: BillingLimit,
): Promise<CommitOutcome> {
  const { client, names, location } = context;
  const estimate = await limit.reserve(batch);
  const id = `person_etl_commit_${names.data}_${batch.number}_${batch.attempt}`;
  let failed = 0;
  const job = await runJob(client, { id, location }, async (reference) => {
    // Statements before a conflict are billed.
    if (failed > 0) await limit.addFailed(estimate);
    failed += 1;
    const scriptOptions = { statementByteBudget: String(await limit.left()) };
    const query = { useLegacySql: false, ...queryOf(commitScript(names, batch)), scriptOptions };
    return insertJob(client, reference, { labels: client.labels, query });
  });
  // Nothing is billed by the byte where the project has slots.
  limit.add(Number(job.statistics?.query?.totalBytesBilled ?? estimate));
  const [outcome] = await resultsOf<Outcome>(client, job.jobReference);
  if (outcome?.moved === 1) return "committed";
  return outcome?.id === batch.id ? "present" : "refused";
}

/** Script of a commit; its last statement returns whether it committed, and the current position. */
function commitScript(names: DatasetNames, batch: StagedBatch) {
  const changes = batch.changes.flatMap((change) => statementsOf(names, batch, change));
  return {
    text: `DECLARE moved INT64 DEFAULT 0;
BEGIN TRANSACTION;
UPDATE ${positionTable(names)} SET number = @number, id = @id, published_at = CURRENT_TIMESTAMP()
  WHERE id IS NOT DISTINCT FROM @follows;
SET moved = @@row_count;
IF moved = 1 THEN
${changes.map((statement) => `  ${statement};\n`).join("")}  COMMIT TRANSACTION;
ELSE
  ROLLBACK TRANSACTION;
END IF;
SELECT moved, id FROM ${positionTable(names)}`,
    parameters: { number: batch.number, id: batch.id, follows: batch.follows },
  };
}

/** Statements of a commit that change a table. */
export function statementsOf(names: DatasetNames, batch: BatchRef, change: TableChange): readonly string[] {
  const { table, replaces, hasRows } = change;
  const target = tableName(names, table.schema, table.name);
  const columns = table.columns.map(({ name }) => quoteIdentifier(name)).join(", ");
  const values = table.columns.map(valueOf).join(", ");
  const insert = `INSERT INTO ${target} (${columns})\n  SELECT ${values} FROM ${stagingTable(names, batch, table, "rows")}`;
  return [
    replaces === "all" ? `TRUNCATE TABLE ${target}` : deleteOf(names, batch, change),
    ...(hasRows ? [insert] : []),
  ];
}

/** Converts a staged value to the column's type. JSON is staged as text; what BigQuery doesn't take as JSON becomes a JSON string. */
function valueOf({ name, type }: Column): string {
  const column = quoteIdentifier(name);
  if (type !== "json") return column;
  const parsed = `IFNULL(SAFE.PARSE_JSON(${column}, wide_number_mode => 'round'), TO_JSON(${column}))`;
  return `IF(${column} IS NULL, NULL, ${parsed})`;
}

function deleteOf(names: DatasetNames, batch: BatchRef, { table }: TableChange): string {
  const keys = stagingTable(names, batch, table, "keys");
  const target = tableName(names, table.schema, table.name);
  const [first, ...others] = table.rootKey;
  if (first !== undefined && others.length === 0) {
    const key = quoteIdentifier(first);
    return `DELETE FROM ${target} WHERE ${key} IN (SELECT ${key} FROM ${keys})`;
  }
  const equal = table.rootKey.map((name) => `k.${quoteIdentifier(name)} = t.${quoteIdentifier(name)}`);
  // A table of one row has no key.
  return equal.length === 0
    ? `DELETE FROM ${target} WHERE TRUE`
    : `DELETE FROM ${target} AS t WHERE EXISTS (SELECT 1 FROM ${keys} AS k WHERE ${equal.join(" AND ")})`;
}

/** Counts and hashes of the tables, in one query; a table that doesn't exist is empty. */
async function measureTables(
  session: Session,
  names: DatasetNames,
  tables: readonly PublishedTable[],
): Promise<readonly Measure[]> {
  const existing = await listBoth(session.client, names);
  const present = tables.filter(({ schema, name }) => existing[schema].has(name));
  const found = present.length === 0 ? [] : await session.rows<MeasuredRow>(measureQuery(names, present));
  const byName = new Map(found.map((row) => [row.table_name, row]));
  return tables.map(({ name }) => {
    const row = byName.get(name);
    return {
      table: name,
      rows: BigInt(row?.row_count ?? 0),
      hash: row?.row_hash.replace(/\.0*$/, "") ?? "0",
    };
  });
}

interface MeasuredRow {
  readonly table_name: string;
  readonly row_count: string | number;
  readonly row_hash: string;
}

/** Query that measures tables, all of which exist. */
export function measureQuery(names: DatasetNames, tables: readonly PublishedTable[]) {
  const parts = tables.map(({ schema, name, columns }) => {
    const texts = columns.map((c) => hashedText(c.type, quoteIdentifier(c.name))).join(", ");
    const digits = `SUBSTR(TO_HEX(MD5(ARRAY_TO_STRING([${texts}], '\\x01', '\\x02'))), 1, 15)`;
    // The sum of many hashes is beyond INT64.
    const sum = `CAST(IFNULL(SUM(CAST(CAST(CONCAT('0x', ${digits}) AS INT64) AS NUMERIC)), 0) AS STRING)`;
    return `SELECT ${quoteLiteral(name)} AS table_name, COUNT(*) AS row_count, ${sum} AS row_hash
FROM ${tableName(names, schema, name)}`;
  });
  return { text: parts.join("\nUNION ALL\n") };
}

/** Texts of values for the hash of a row; by default a cast. */
const HASHED: Partial<Readonly<Record<ColumnType, (column: string) => string>>> = {
  numeric: (column) => `REGEXP_REPLACE(CAST(${column} AS STRING), r'\\.0+$|(\\.[0-9]*[1-9])0+$', r'\\1')`,
  date: (column) => `CAST(UNIX_DATE(${column}) AS STRING)`,
  timestamp: (column) => `CAST(UNIX_MICROS(TIMESTAMP(${column})) AS STRING)`,
  timestamptz: (column) => `CAST(UNIX_MICROS(${column}) AS STRING)`,
  bytes: (column) => `TO_HEX(${column})`,
  // Its text isn't the one of Postgres.
  json: (column) => `IF(${column} IS NULL, NULL, '')`,
  "text[]": (column) => `ARRAY_TO_STRING(${column}, '\\x01')`,
};

function hashedText(type: ColumnType, column: string): string {
  return HASHED[type]?.(column) ?? `CAST(${column} AS STRING)`;
}

export interface BigQueryTarget extends ClientOptions {
  /** Name in the configuration. */
  readonly name: string;
  /** Location of the datasets (`EU`, `us-central1`); null for that of the existing datasets. */
  readonly location: string | null;
  readonly dataset: string;
  readonly opsDataset: string;
  /** Dataset of staging tables; by default `dataset`. */
  readonly stagingDataset?: string | null;
  /** Key of Cloud KMS for new datasets and tables. */
  readonly kmsKey?: string | null;
  /** Bytes that a publication may bill; by default three times what `check` estimates. */
  readonly maximumBytesBilled?: number | null;
}

/** Opens a destination in BigQuery; connects at the first use. */
export function openBigQueryDestination(target: BigQueryTarget): Destination {
  const { name, project, dataset, opsDataset } = target;
  const client = openClient(target);
  const staging = target.stagingDataset ?? dataset;
  const kmsKey = target.kmsKey ?? null;
  const maximumBytesBilled = target.maximumBytesBilled ?? null;
  const names = { project, data: dataset, ops: opsDataset, staging, kmsKey };
  const where: NamedProject = {
    project,
    location: target.location,
    path: `publish.${name}`,
    billingProject: client.billingProject,
    datasets: [...new Set([dataset, opsDataset, staging])],
  };
  const limit = createBillingLimit({ client, names, where, maximumBytesBilled });
  let opening: Promise<OpenDatasets> | null = null;

  /** Creates missing datasets; all jobs run in their location. */
  function context(): Promise<OpenDatasets> {
    opening ??= openDatasets(client, names, where).catch((error: unknown) => {
      opening = null;
      throw error;
    });
    return opening;
  }

  async function session(most: number | null = null): Promise<Session> {
    const { location } = await context();
    return openSession({ client, dataset: null, location, maximumBytesBilled: most });
  }

  return {
    name,
    description: `BigQuery project ${project}, datasets ${dataset} and ${opsDataset}`,
    fileFormat: "json",
    keysPerBatch: KEYS_PER_BATCH,
    check: (catalog) => checkDestination({ client, names, where, maximumBytesBilled }, catalog),
    async migrate(catalog) {
      limit.begin(catalog);
      await migrateDatasets(await context(), catalog);
    },
    restart: () => Promise.resolve(),
    async position() {
      const text = `SELECT number, id FROM ${positionTable(names)} WHERE id IS NOT NULL`;
      const rows = await orMissing(session().then((reader) => reader.rows<Position>({ text })));
      return rows?.[0] ?? null;
    },
    stage: async (batch, staged) => stageFiles(await context(), batch, staged),
    async commit(batch) {
      const opened = await context();
      try {
        const outcome = await commitBatch(opened, batch, limit);
        await dropStaging(opened, batch, { older: outcome !== "refused" });
        return outcome;
      } catch (error) {
        // The next publication stages the batch again.
        if (error instanceof FixConfigurationError) await dropStaging(opened, batch, { older: false });
        throw error;
      }
    },
    // A commit is visible immediately; time travel keeps deleted values for the dataset's configured time.
    finish: () => Promise.resolve(),
    async measure(tables) {
      const bytes = await limit.reserveComparison(tables);
      const measures = await measureTables(await session(await limit.left()), names, tables);
      limit.add(bytes);
      return measures;
    },
    explain: (error) => explainFailure(error, where),
    async close() {},
  };
}
