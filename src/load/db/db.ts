import PQueue from "p-queue";
import type pg from "pg";
import { systemClock } from "../../clock.ts";
import { LockLostError } from "../../errors.ts";
import { type Log, silentLog } from "../../log.ts";
import { createOutageReport, observe, type OutageReport } from "../../outage-report.ts";
import { readPostgresAddress } from "../../postgres-address.ts";
import type { ReadErasureSecret } from "../erasure/key.ts";
import type { InputDatabase, InputDatabases, InputSource } from "../inputs/input.ts";
import { fence, ownerToken, requireLock, type RunRef, sessionName } from "../runs/fence.ts";
import type { PostgresTarget } from "./connect.ts";
import { explained, explainFailure, outageOf, withRetries } from "./failures.ts";
import type { ExtraColumns } from "../../schemas/extra-columns.ts";
import { queriesOf, quoteLiteral, tableId } from "./names.ts";
import {
  inTransaction,
  type Naming,
  openPool,
  type PostgresSession,
  type Session,
  type TransactionOptions,
} from "./session.ts";

type Connections = Naming & Pick<Db, "outage">;

type RunContext = Connections & Pick<Db, "pool" | "lockPool">;

/** Runs one transaction; reports a database that doesn't respond. */
function begin<Result>(
  pool: pg.Pool,
  { names, table, query, outage }: Connections,
  work: (session: Session) => Promise<Result>,
  options?: TransactionOptions,
): Promise<Result> {
  return observe(outage, outageOf, (connected) => {
    const named = (session: PostgresSession) => {
      connected();
      return work({ ...session, names, table, query });
    };
    return inTransaction(pool, named, options);
  });
}

/**
 * Runs one transaction of a run, in a session named after the lock's owner; it ends with the fence.
 * Throws a LockLostError if the lock is lost, even if the error is a session ended by a takeover.
 */
async function inRunTransaction<Result>(
  context: RunContext,
  run: RunRef,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  const { names } = context;
  try {
    return await begin(
      context.pool,
      context,
      async (session) => {
        // The fence would suffice; checking first keeps a former owner from blocking the new one.
        await requireLock(session, run);
        const result = await work(session);
        await fence(session, run);
        return result;
      },
      {
        settings: [
          `SET LOCAL application_name = ${quoteLiteral(sessionName(ownerToken(names, run)))}`,
          // The default of `_run_id`.
          `SET LOCAL person_etl.run_id = ${quoteLiteral(run.runId)}`,
        ],
      },
    );
  } catch (error) {
    throw (error instanceof LockLostError ? null : await findLoss(context, run)) ?? error;
  }
}

/** Waits for a takeover in progress; returns the error if the lock is lost, null otherwise or without an answer. */
async function findLoss(context: RunContext, run: RunRef): Promise<LockLostError | null> {
  try {
    await begin(context.lockPool, context, (session) => fence(session, run));
    return null;
  } catch (error) {
    return error instanceof LockLostError ? error : null;
  }
}

/**
 * Work of one transaction; `attempt` is 1-based. Retried after conflicts and lost connections, even one lost during
 * COMMIT, so it must be safe to repeat.
 */
type Work<Result> = (session: Session, attempt: number) => Promise<Result>;

/** The Postgres database that is the system of record. Functions in `src/load` take it, or a session of it, as their first argument. */
export interface Db extends Naming {
  /** Host, port and database, for messages; no secret. */
  readonly address: string;
  /** The same with the schemas that people read. */
  readonly description: string;
  readonly pool: pg.Pool;
  /** Connections reserved for locks, never blocked by work. */
  readonly lockPool: pg.Pool;
  readonly readErasureSecret: ReadErasureSecret;
  readonly extraColumns: ExtraColumns;
  /** Limits concurrent reservations that wait for the same rows. */
  readonly reservations: PQueue;
  /** Runs work in one transaction and explains failures; with a run, ends with its fence. */
  transaction<Result>(...args: readonly [Work<Result>] | readonly [RunRef, Work<Result>]): Promise<Result>;
  /** Like the session's functions of these names, in a transaction of their own. */
  readonly rows: PostgresSession["rows"];
  readonly one: PostgresSession["one"];
  readonly pluck: PostgresSession["pluck"];
  readonly change: PostgresSession["change"];
  /** Runs work in one REPEATABLE READ transaction: all statements see one snapshot. Retried like any other. */
  snapshot<Result>(work: Work<Result>): Promise<Result>;
  /** Runs work in a transaction and rolls it back. */
  preview<Result>(work: Work<Result>): Promise<Result>;
  /** Runs short work on a lock connection with timeouts; no retry. */
  lockTransaction<Result>(work: Work<Result>): Promise<Result>;
  /** Other database that an input is read from; null for this one. */
  foreignOf(input: Pick<InputSource, "connection">): InputDatabase | null;
  /** Converts a driver error into one with a remedy. */
  readonly explain: (error: unknown) => unknown;
  /** Reports when it doesn't respond. */
  readonly outage: OutageReport;
  close(): Promise<void>;
}

export interface WarehouseTarget extends PostgresTarget {
  /** Schema of the people. */
  readonly schema: string;
  /** Schema of runs and ledger. */
  readonly opsSchema: string;
  /** Schema of the program's own tables. */
  readonly stateSchema: string;
  /** Reads the key for hashes of erased people; absent if the warehouse stores a generated one. */
  readonly readErasureSecret?: () => Promise<string>;
  /** Columns that the user adds to `person`. */
  readonly extraColumns?: ExtraColumns;
  readonly log?: Log;
}

/** Connections for loaders and reservations, and one each for pages, the ledger and a selection. */
const CONNECTIONS = 7;
const PARALLEL_RESERVATIONS = 2;

/** Configuration path of the warehouse's address, which its errors name. */
export const WAREHOUSE_PATH = "warehouse.url";

/** Opens the place of record; connects on first use. @param foreign opens the databases that inputs are read from */
export function openDb(target: WarehouseTarget, foreign: InputDatabases): Db {
  const names = { data: target.schema, ops: target.opsSchema, state: target.stateSchema };
  const naming: Naming = { names, table: (name) => tableId(names, name), query: queriesOf(names) };
  const pool = openPool(target, CONNECTIONS);
  // A heartbeat must fail before the lock expires.
  const lockPool = openPool(target, 1, { connectMs: 5_000, queryMs: 5_000 });
  const address = addressOf(target.url);
  const where = { name: `The warehouse (${address})`, path: WAREHOUSE_PATH };
  const explain = (error: unknown) => explainFailure(error, where);
  const { log = silentLog } = target;
  const outage = createOutageReport({ clock: systemClock, log, name: "warehouse", subject: where.name });
  const context = { ...naming, pool, lockPool, outage };

  const transaction: Db["transaction"] = (...args) =>
    explained(explain, () =>
      withRetries((attempt) => {
        if (args.length === 1) return begin(pool, context, (session) => args[0](session, attempt));
        const [run, work] = args;
        return inRunTransaction(context, run, (session) => work(session, attempt));
      }),
    );

  return {
    address,
    description: `${address}, schemas ${names.data} and ${names.ops}`,
    ...naming,
    pool,
    lockPool,
    readErasureSecret: async () => (await target.readErasureSecret?.()) ?? null,
    extraColumns: target.extraColumns ?? {},
    reservations: new PQueue({ concurrency: PARALLEL_RESERVATIONS }),
    transaction,
    rows: (statement) => transaction((session) => session.rows(statement)),
    one: (statement) => transaction((session) => session.one(statement)),
    pluck: (statement) => transaction((session) => session.pluck(statement)),
    change: (statement) => transaction((session) => session.change(statement)),
    snapshot: (work) =>
      explained(explain, () =>
        withRetries((attempt) =>
          begin(pool, context, (session) => work(session, attempt), { isSnapshot: true }),
        ),
      ),
    preview: (work) =>
      explained(explain, () => begin(pool, context, (session) => work(session, 1), { keep: false })),
    lockTransaction: (work) =>
      explained(explain, () => begin(lockPool, context, (session) => work(session, 1))),
    foreignOf: ({ connection }) => (connection ? foreign.of(connection) : null),
    explain,
    outage,
    async close() {
      outage.stop();
      await Promise.all([pool.end(), lockPool.end(), foreign.close()]);
    },
  };
}

/** Host, port and database of a connection string, without user or password. */
function addressOf(url: string): string {
  const { host, port, database } = readPostgresAddress(url);
  return `Postgres at ${host.startsWith("/") ? host : `${host}:${port}`}${database === null ? "" : `/${database}`}`;
}
