import { AsyncLocalStorage } from "node:async_hooks";
import type { CrashPoint } from "../../src/crash-point.ts";
import type { HttpClient } from "../../src/extract/http-client.ts";
import type { Db } from "../../src/load/db/db.ts";

/** Step at which a run dies, when it is reached for the count-th time (1-based). */
export interface Death {
  readonly point: CrashPoint;
  readonly count: number;
}

type Life = ReturnType<typeof createLife>;

const lives = new AsyncLocalStorage<Life>();

/** A run that may die in the middle of this process: from then on it reaches neither Postgres nor the service. */
export function createLife(death: Death | null) {
  let left = death?.count ?? 0;
  let isOver = false;
  const end = Promise.withResolvers<void>();
  return {
    get isOver() {
      return isOver;
    },
    /** Resolves when the run dies. */
    end: end.promise,
    /** Passes a step; dies there, or throws if it died before. */
    pass(point: CrashPoint): void {
      if (!isOver && point === death?.point && --left === 0) {
        isOver = true;
        end.resolve();
      }
      if (isOver) throw new Error(`died at ${point}`);
    },
  };
}

/** Does work as a life; resolves to null if it dies. */
export async function live<Result>(life: Life, work: () => Promise<Result>): Promise<Result | null> {
  const working = lives.run(life, work);
  working.catch(() => {});
  return await Promise.race([working, life.end.then(() => null)]);
}

/** Stands in for the crash points of processes. */
export function crashPoint(point: CrashPoint): void {
  lives.getStore()?.pass(point);
}

/** Never ends: nobody is left to see the result. */
const never = new Promise<never>(() => {});

/** Cuts the connections of a database of its own when the life ends; the server rolls back what isn't committed. */
export function mortalDb(life: Life, db: Db): Db {
  for (const pool of [db.pool, db.lockPool]) {
    const connect = pool.connect.bind(pool);
    Object.assign(pool, {
      connect(callback?: Parameters<typeof connect>[0]): unknown {
        if (life.isOver) return never;
        // The pool's own queries pass a callback.
        return callback ? connect(callback) : connect().then((client) => (life.isOver ? never : client));
      },
    });
    pool.on("error", () => {});
    pool.on("connect", (client) => {
      client.on("error", () => {});
      void life.end.then(() => client.end().catch(() => {}));
    });
  }
  return db;
}

/** Sends and receives nothing once the life has ended. */
export function mortalHttp(life: Life, http: HttpClient): HttpClient {
  return {
    ...http,
    async request(call) {
      if (life.isOver) return await never;
      const reply = await http.request(call);
      return life.isOver ? await never : reply;
    },
  };
}
