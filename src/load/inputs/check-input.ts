import type { Db } from "../db/db.ts";
import type { Problem } from "../../errors.ts";
import * as own from "./input.ts";
import type { InputSample } from "./input-sample.ts";
import { sampleInput as samplePostgres } from "./sample-postgres.ts";
import type { InputSource } from "./input-source.ts";

/** Returns problems of an input's table, query, columns or types; reads no rows. */
export async function checkInput(db: Db, input: InputSource): Promise<readonly Problem[]> {
  try {
    return await (db.foreignOf(input)?.checkInput(input) ?? own.checkInput(db.pool, input));
  } catch (error) {
    throw db.explain(error);
  }
}

/** Counts keys of an input, and reads a sample of its rows; changes nothing. */
export async function sampleInput(db: Db, input: InputSource): Promise<InputSample> {
  try {
    return await (db.foreignOf(input)?.sampleInput(input) ?? samplePostgres(db.pool, input));
  } catch (error) {
    throw db.explain(error);
  }
}
