import { join } from "node:path";
import { type Holder, makeOpenFolder, startHolder } from "./embedded-process.ts";

/** A Postgres of one test, which it may stop and start again. */
export interface StoppableDatabase {
  /** Stays the same. */
  readonly url: string;
  /** Ends all sessions and the server, as an operator would. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** Starts a Postgres; it goes with the test. */
export async function startStoppableDatabase(): Promise<StoppableDatabase> {
  const dataDir = join(await makeOpenFolder(), "data-dir");
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
