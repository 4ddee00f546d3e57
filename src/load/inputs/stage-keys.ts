import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type Session, withRolePath } from "../db/session.ts";
import { PUSH_READING } from "./foreign-database.ts";
import { copyRows } from "./foreign-input.ts";
import { describeColumns, rawSelect } from "./input.ts";
import type { InputSource } from "./input-source.ts";

/** Reads the keys of a query into the temporary table `key_row (source_key text)`, whatever database it runs in. */
export async function stageKeys(db: Db, session: Session, source: InputSource): Promise<void> {
  await session.client.query("CREATE TEMP TABLE key_row (source_key text) ON COMMIT DROP");
  const foreign = db.foreignOf(source);
  if (foreign) {
    await foreign.read(source, PUSH_READING, (rows) => copyRows(session, rows, "key_row"));
    return;
  }
  await withRolePath(session, () =>
    session.readOnly(async () => {
      const columns = await describeColumns(session, source);
      const rows = rawSelect(source, [], columns, { ranked: false });
      await session.change(sql`INSERT INTO pg_temp.key_row ${sql.raw(rows)}`);
    }),
  );
}

/** Reads the distinct keys of a query, in order; null and blank ones are left out. */
export async function readKeys(db: Db, source: InputSource): Promise<readonly string[]> {
  return db.transaction(async (session) => {
    await stageKeys(db, session, source);
    const rows = await session.rows<{ key: string }>(sql`
      SELECT DISTINCT btrim(source_key) AS key FROM pg_temp.key_row WHERE btrim(source_key) <> '' ORDER BY 1`);
    return rows.map(({ key }) => key);
  });
}
