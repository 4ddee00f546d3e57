import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
} from "kysely";
import { type CustomTypesConfig, Pool, type PoolClient, types as defaultTypes } from "pg";

/** Compiles `sql` templates; never connects. Values become parameters, `sql.id` quotes identifiers. */
const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** One connection inside a transaction. */
export interface Session {
  /** Runs a statement and returns its rows. */
  rows<Row>(statement: RawBuilder<Row>): Promise<Row[]>;
  /** Runs a statement and returns how many rows it changed. */
  change(statement: RawBuilder<unknown>): Promise<number>;
  /** The connection itself, for COPY. */
  readonly client: PoolClient;
  /** The transaction's time as text, which every `_synced_at` of it gets. */
  readonly now: string;
}

/**
 * Settings that decide how values turn into text, so that keys and hashes come out the same for every role, database
 * and pooler, and how safe a commit is; for this transaction only.
 */
const PINNED = [
  "SET LOCAL TimeZone = 'UTC'",
  "SET LOCAL DateStyle = 'ISO, YMD'",
  "SET LOCAL IntervalStyle = 'postgres'",
  "SET LOCAL extra_float_digits = 1",
  "SET LOCAL bytea_output = 'hex'",
  "SET LOCAL array_nulls = on",
  "SET LOCAL lc_monetary = 'C'",
  "SET LOCAL standard_conforming_strings = on",
  "SET LOCAL client_encoding = 'UTF8'",
  "SET LOCAL jit = off",
  // What was committed before a call is sent, or before a received answer is thrown away, has to survive the server's crash.
  "SET LOCAL synchronous_commit = on",
].join("; ");

/** The transaction's time, asked for in the same round trip. */
const NOW = "SELECT now()::text AS now";

/** The text in the only cell of the last of several statements' results. */
function lastText(results: unknown): string {
  // What the driver gives for several statements at once is a list of results, which its types don't say.
  const [row] =
    (results as readonly { readonly rows: readonly { readonly now: string }[] }[]).at(-1)?.rows ?? [];
  return row?.now ?? "";
}

const INT8 = 20;
const DATE = 1082;
const TIMESTAMP = 1114;
const TIMESTAMPTZ = 1184;

/** `2026-11-21 04:00:00.1+00` as `2026-11-21T04:00:00.1Z`. */
function readInstant(text: string): string {
  return text.replace(" ", "T").replace(/\+00$/, "Z");
}

/** Reads 64-bit counters as numbers and every date and time as text: a Date would cut microseconds. */
const types: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") => {
    if (oid === INT8) return Number;
    if (oid === TIMESTAMPTZ) return readInstant;
    if (oid === DATE || oid === TIMESTAMP) return (text: string) => text;
    return format === "binary" ? defaultTypes.getTypeParser(oid, "binary") : defaultTypes.getTypeParser(oid);
    // The cast stands for the overloads of getTypeParser, which differ in the format only.
  }) as typeof defaultTypes.getTypeParser,
};

/** How long a pool waits; queries may take as long as they like unless it says otherwise. */
interface PoolTimeouts {
  readonly connectMs: number;
  readonly queryMs?: number;
}

/** Opens a pool; connects at the first use only. */
export function openPool(
  url: string,
  connections: number,
  timeouts: PoolTimeouts = { connectMs: 15_000 },
): Pool {
  const { connectMs, queryMs } = timeouts;
  const pool = new Pool({
    connectionString: url,
    max: connections,
    types,
    application_name: "person-etl",
    connectionTimeoutMillis: connectMs,
    ...(queryMs === undefined ? {} : { query_timeout: queryMs }),
    keepAlive: true,
  });
  // An idle connection that breaks is replaced at the next use; without a listener it would end the process.
  pool.on("error", () => {});
  return pool;
}

function sessionOf(client: PoolClient, now: string): Session {
  const query = (statement: RawBuilder<unknown>) => {
    const { sql, parameters } = statement.compile(compiler);
    return client.query(sql, [...parameters]);
  };
  return {
    client,
    now,
    async rows<Row>(statement: RawBuilder<Row>) {
      // The row type is what the statement's author declared.
      return (await query(statement)).rows as Row[];
    },
    async change(statement) {
      return (await query(statement)).rowCount ?? 0;
    },
  };
}

/** How a transaction is made. */
interface TransactionOptions {
  /** False: it is rolled back in any case. */
  readonly keep?: boolean;
  /** True for REPEATABLE READ: all statements see one snapshot. */
  readonly isSnapshot?: boolean;
  /** Further settings of the transaction; all of them LOCAL, because a pooler gives the session to others after it. */
  readonly settings?: readonly `SET LOCAL ${string}`[];
}

/** Runs `work` in one transaction with pinned settings; rolls back when it throws. */
export async function inTransaction<Result>(
  pool: Pool,
  work: (session: Session) => Promise<Result>,
  { keep = true, isSnapshot = false, settings = [] }: TransactionOptions = {},
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | boolean = false;
  // An error between two statements surfaces at the next one; the listener keeps it from ending the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  try {
    const isolation = isSnapshot ? "REPEATABLE READ" : "READ COMMITTED";
    const begin = [`BEGIN ISOLATION LEVEL ${isolation}`, PINNED, ...settings, NOW].join("; ");
    const results: unknown = await client.query(begin);
    const result = await work(sessionOf(client, readInstant(lastText(results))));
    await client.query(keep ? "COMMIT" : "ROLLBACK");
    return result;
  } catch (error) {
    try {
      await client.query("ROLLBACK");
    } catch {
      broken = true;
    }
    throw error;
  } finally {
    client.removeListener("error", onError);
    client.release(broken);
  }
}
