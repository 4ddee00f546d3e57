import { type Holder, startHolder } from "./embedded-process.ts";

/** A Postgres that a test may stop and start again. */
export interface StoppableDatabase {
  /** Doesn't change. */
  readonly url: string;
  /** Ends all sessions and stops the server, as an operator would. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** Starts the Postgres of a data_dir with a given port, or joins it; only within a test. */
export async function openStoppableDatabase(dataDir: string): Promise<StoppableDatabase> {
  let holder: Holder = await startHolder(dataDir);
  const { url } = holder;
  return {
    url,
    async stop() {
      await holder.close();
    },
    async start() {
      holder = await startHolder(dataDir);
      if (holder.url !== url) throw new Error("The database has moved to another port.");
    },
  };
}
