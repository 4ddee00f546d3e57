import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { FixConfigurationError } from "../../errors.ts";
import type { ForeignDatabase, Reading } from "../foreign-database.ts";
import type { InputSource, Part } from "../input-source.ts";
import type { LookupSpec } from "../warehouse.ts";
import { isNotFound } from "./failure.ts";
import { cursorMaxSelect, describeColumns, otherPartsOf, partsOf, rawSelect } from "./input.ts";
import { inputFile, removeInputFiles } from "./manifest.ts";
import { quoteLiteral, tableText } from "./names.ts";
import type { Session } from "./session.ts";
import { createStagingTable, dropTable, loadFile, type StagingColumn } from "./staging.ts";

/** What is known of an input once it can be read. */
export interface OpenedInput {
  /** What the job's endpoint takes. */
  readonly parts: readonly Part[];
  /** What else is mapped; empty without a shard, which alone looks at it. */
  readonly otherParts: readonly Part[];
  /** Query for the highest value of the cursor, as text; null without a cursor. */
  readonly cursorMax: string | null;
  /** Query that yields the raw rows inside the warehouse. */
  readonly rawRows: string;
  /** Lets go of what was made for it. */
  close(): Promise<void>;
}

/** Opens an input that lives in the warehouse itself. */
export async function openLocalInput(
  session: Session,
  { input, type }: Pick<LookupSpec, "input" | "type">,
  reading: Omit<Reading, "type">,
): Promise<OpenedInput> {
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, type, columns);
  const otherParts = reading.isSharded ? otherPartsOf(input, type, columns) : [];
  return {
    parts,
    otherParts,
    cursorMax: cursorMaxSelect(input, columns),
    rawRows: rawSelect(input, [...parts, ...otherParts], columns, reading),
    close: async () => {},
  };
}

const TYPES = { text: "STRING", list: "STRING", truth: "BOOL", number: "INT64" } as const;

/** Where rows of another database wait on their way: a file, and then a table, both of this reading alone. */
export interface InputStage {
  readonly workFolder: string;
  /** Name of the table. */
  readonly table: string;
}

/**
 * Opens an input that lives in another database: loads its raw rows into a staging table, so that everything after it is the
 * same as for an input in BigQuery. Constant memory; the rows stand in a file of `data_dir` meanwhile.
 */
export async function openForeignInput(
  session: Session,
  stage: InputStage,
  {
    database,
    input,
    reading,
  }: {
    readonly database: ForeignDatabase;
    readonly input: InputSource;
    readonly reading: Reading;
  },
): Promise<OpenedInput> {
  const { workFolder, table } = stage;
  const file = inputFile(workFolder, table);
  await removeInputFiles(workFolder);
  try {
    const read = await database.read(input, reading, async (rows) => {
      await pipeline(rows.jsonLines(), createWriteStream(file, { flags: "wx", mode: 0o600 }));
      return rows;
    });
    const columns = read.columns.map(
      ({ name, type }): StagingColumn => ({
        name,
        type: TYPES[type],
        ...(type === "list" ? { mode: "REPEATED" } : {}),
      }),
    );
    await stageRows(session, { file, table, columns, source: input.name });
    const { parts, otherParts, cursorMax } = read;
    return {
      parts,
      otherParts,
      cursorMax: input.cursor ? `SELECT ${textOrNull(cursorMax)}` : null,
      rawRows: `SELECT ${columns.map(({ name }) => name).join(", ")} FROM ${tableText(session.names, "data", table)}`,
      close: () => dropTable(session, table),
    };
  } catch (error) {
    await dropTable(session, table).catch(() => {});
    throw error;
  } finally {
    await rm(file, { force: true });
  }
}

function textOrNull(text: string | null): string {
  return text === null ? "CAST(NULL AS STRING)" : quoteLiteral(text);
}

async function stageRows(
  session: Session,
  rows: {
    readonly file: string;
    readonly table: string;
    readonly columns: readonly StagingColumn[];
    readonly source: string;
  },
): Promise<void> {
  try {
    await createStagingTable(session, rows.table, rows.columns, `Rows of input ${rows.source}, for one run.`);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw new FixConfigurationError(
      "not_migrated",
      `The rows of input ${rows.source} come from another database and have to be compared in the dataset ` +
        `${session.names.data}, which isn't there yet. Run \`person-etl migrate\` first.`,
      [],
      { cause: error },
    );
  }
  await loadFile(session, { ...rows, jobId: `person_etl_load_input_${randomUUID().replaceAll("-", "")}` });
}
