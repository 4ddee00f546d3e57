import { setTimeout as delay } from "node:timers/promises";
import { postmasterPid } from "./embedded-files.ts";
import { type Holder, startHolder } from "./embedded-process.ts";

/** A Postgres that a test may stop and start again. */
export interface StoppableDatabase {
  /** Doesn't change. */
  readonly url: string;
  /** Ends all sessions and stops the server, as an operator would. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Kills the whole server with SIGKILL and starts it again. */
  crash(downMs: number): Promise<void>;
}

/** Starts the Postgres of a data_dir with a given port, or joins it; only within a test. */
export async function openStoppableDatabase(dataDir: string): Promise<StoppableDatabase> {
  let holder: Holder = await startHolder(dataDir);
  const { url } = holder;
  const start = async () => {
    holder = await startHolder(dataDir);
    if (holder.url !== url) throw new Error("The database has moved to another port.");
  };
  return {
    url,
    async stop() {
      await holder.close();
    },
    start,
    async crash(downMs) {
      const pid = await postmasterPid(dataDir);
      if (pid === null) throw new Error("The server isn't running.");
      process.kill(pid, "SIGKILL");
      await holder.kill();
      await delay(downMs);
      // Sessions may be cut meanwhile, that of the start, too.
      await start().catch(start);
    },
  };
}
