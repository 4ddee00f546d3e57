import { Readable } from "node:stream";
import { explainFailure as explainBigQueryFailure } from "../bigquery/failure.ts";
import { type Db, openDb, type WarehouseTarget } from "./db/db.ts";
import { explained, explainFailure, explainWriting } from "./db/failures.ts";
import { openBigQueryDatabase } from "./inputs/bigquery.ts";
import { openFiles } from "./inputs/open-files.ts";
import { type InputDatabase, type InputConnection, keepInputDatabases } from "./inputs/input.ts";
import { openPostgresDatabase } from "./inputs/read.ts";

/** Opens the place of record; connects on first use. */
export function openWarehouse(target: WarehouseTarget): Db {
  return openDb(target, keepInputDatabases(openInputDatabase));
}

/** Opens a database that inputs are read from; connects on first use. */
export function openInputDatabase(connection: InputConnection): InputDatabase {
  const { name } = connection;
  const path = `connections.${name}`;
  if (connection.type === "postgres") {
    const where = { name: `Connection ${name}`, path: `${path}.url` };
    return explainDatabase(openPostgresDatabase(connection), (error) =>
      explainFailure(explainWriting(error), where),
    );
  }
  if (connection.type === "duckdb") return openFiles(connection);
  return explainDatabase(openBigQueryDatabase(connection), (error) =>
    explainBigQueryFailure(error, {
      project: connection.project,
      location: connection.location,
      path,
      datasets: [],
    }),
  );
}

/** Wraps a warehouse failure, so that it isn't attributed to the input's database. */
class OtherSide extends Error {
  override readonly name = "OtherSide";
}

/** Wraps a database to explain its failures. Failures of the warehouse that receives its rows are unchanged. */
function explainDatabase(database: InputDatabase, explain: (error: unknown) => unknown): InputDatabase {
  const explainOwn = (error: unknown) => (error instanceof OtherSide ? error.cause : explain(error));
  return {
    checkInput: (input) => explained(explainOwn, () => database.checkInput(input)),
    describe: (input) => explained(explainOwn, () => database.describe(input)),
    sampleInput: (input) => explained(explainOwn, () => database.sampleInput(input)),
    read: (input, reading, work) =>
      explained(explainOwn, () =>
        database.read(input, reading, async (rows) => {
          try {
            return await work({ ...rows, copyText: () => explainStream(rows.copyText(), explain) });
          } catch (cause) {
            throw new OtherSide("the warehouse", { cause });
          }
        }),
      ),
    findRows: (input, wanted) => explained(explainOwn, () => database.findRows(input, wanted)),
    close: () => database.close(),
  };
}

function explainStream(stream: Readable, explain: (error: unknown) => unknown): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of stream) yield chunk as Buffer; // Both kinds of databases send buffers.
    } catch (error) {
      throw explain(error);
    }
  }
  return Readable.from(chunks(), { objectMode: false });
}
