import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";

/** Limits what a look at the history may cost the warehouse. */
const LIMITS = "SET LOCAL transaction_read_only = on; SET LOCAL statement_timeout = '5s'";

/** Runs work in a transaction that can't write and whose statements end after five seconds. */
export function readBriefly<Result>(db: Db, work: (session: Session) => Promise<Result>): Promise<Result> {
  return db.transaction(async (session) => {
    await session.client.query(LIMITS);
    return work(session);
  });
}
