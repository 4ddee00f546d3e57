import type { Log } from "../log.ts";

/** Closes resources before the process ends, in reverse order. */
export interface Scope {
  defer(name: string, close: () => Promise<void> | void): void;
  /** Like `defer`, for a child process, which would otherwise keep running. */
  deferProgram(name: string, close: () => Promise<void> | void): void;
  /** Closes everything, even if something fails; idempotent. */
  close(): Promise<void>;
  /** Closes only the child processes, concurrently. */
  closePrograms(): Promise<void>;
}

interface Closer {
  readonly name: string;
  readonly isProgram: boolean;
  readonly close: () => Promise<void> | void;
}

/** Creates a scope. Failures to close are only logged, because the command already has its result. */
export function createScope(log: Log): Scope {
  const closers: Closer[] = [];

  async function end({ name, close }: Closer): Promise<void> {
    try {
      await close();
    } catch (error) {
      log.warn({ what: name, error }, "closing_failed");
    }
  }

  return {
    defer: (name, close) => closers.push({ name, isProgram: false, close }),
    deferProgram: (name, close) => closers.push({ name, isProgram: true, close }),
    async close() {
      for (let next = closers.pop(); next; next = closers.pop()) await end(next);
    },
    async closePrograms() {
      await Promise.all(closers.filter((closer) => closer.isProgram).map(end));
    },
  };
}
