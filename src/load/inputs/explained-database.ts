import { Readable } from "node:stream";
import type { ForeignDatabase, ForeignRows } from "./foreign-database.ts";

/** Carries what went wrong on the other side, in the warehouse, past the explanation. */
class OtherSide extends Error {
  override readonly name = "OtherSide";
}

/** A database with its own failures explained; those of the warehouse that its rows go to stay as they are. */
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
    isCursorValue: (input, value) => explained(() => database.isCursorValue(input, value)),
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
      for await (const chunk of stream) yield chunk as Buffer; // what both kinds of databases send
    } catch (error) {
      throw explain(error);
    }
  }
  return Readable.from(chunks(), { objectMode: false });
}
