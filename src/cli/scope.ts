import type { Log } from "../log.ts";

/** Closes resources before the process ends, in reverse order. */
export interface Scope {
  defer(name: string, close: () => Promise<void> | void): void;
  /** Like `defer`, for another program, which would go on without us. */
  deferProgram(name: string, close: () => Promise<void> | void): void;
  /** Closes everything, whatever fails on the way; idempotent. */
  close(): Promise<void>;
  /** Closes only the other programs, all at the same time. */
  closePrograms(): Promise<void>;
}

interface Closer {
  readonly name: string;
  readonly isProgram: boolean;
  readonly close: () => Promise<void> | void;
}

/** An empty scope. A failure to close is logged and hinders nothing: the command's result stands already. */
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
