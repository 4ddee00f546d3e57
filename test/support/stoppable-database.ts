import { setTimeout as delay } from "node:timers/promises";
import { postmasterPid } from "./embedded-files.ts";
import { startHolder } from "./embedded-process.ts";

export type StoppableDatabase = Awaited<ReturnType<typeof openStoppableDatabase>>;

/** Starts the Postgres of a data_dir with a given port, or joins it; only within a test. */
export async function openStoppableDatabase(dataDir: string) {
  let holder = await startHolder(dataDir);
  const { url } = holder;
  const start = async () => {
    holder = await startHolder(dataDir);
    if (holder.url !== url) throw new Error("The database has moved to another port.");
  };
  return {
    /** Doesn't change. */
    url,
    /** Ends all sessions and stops the server, as an operator would. */
    async stop(): Promise<void> {
      await holder.close();
    },
    start,
    /** Kills the whole server with SIGKILL and starts it again. */
    async crash(downMs: number): Promise<void> {
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
