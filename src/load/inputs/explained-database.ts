import { Readable } from "node:stream";
import type { ForeignDatabase, ForeignRows } from "./foreign-database.ts";

/** Wraps a warehouse failure, so that it isn't attributed to the input's database. */
class OtherSide extends Error {
  override readonly name = "OtherSide";
}

/** Wraps a database to explain its failures. Failures of the warehouse that receives its rows are unchanged. */
export function explainDatabase(
  database: ForeignDatabase,
  explain: (error: unknown) => unknown,
): ForeignDatabase {
  const explained = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      throw error instanceof OtherSide ? error.cause : explain(error);
    }
  };
  return {
    checkInput: (input) => explained(() => database.checkInput(input)),
    describe: (input) => explained(() => database.describe(input)),
    sampleInput: (input) => explained(() => database.sampleInput(input)),
    read: (input, reading, work) =>
      explained(() =>
        database.read(input, reading, async (rows) => {
          try {
            return await work(explainRows(rows, explain));
          } catch (cause) {
            throw new OtherSide("the warehouse", { cause });
          }
        }),
      ),
    findRows: (input, wanted) => explained(() => database.findRows(input, wanted)),
    close: () => database.close(),
  };
}

function explainRows(rows: ForeignRows, explain: (error: unknown) => unknown): ForeignRows {
  return {
    ...rows,
    copyText: () => explainStream(rows.copyText(), explain),
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
