/** Commits what arrives, some calls at a time, with several commits under way. */
export interface LoaderPool<T> {
  /** Hands over one call's results; waits while too many are waiting. Rejects once a commit has failed. */
  push(item: T): Promise<void>;
  /** Waits until everything is committed; rejects with the first commit's failure. */
  drain(): Promise<void>;
  /** What was handed over and, after a failure, not committed. */
  left(): readonly T[];
}

/** How a pool is bounded. */
export interface LoaderPoolOptions<T> {
  readonly commit: (group: readonly T[]) => Promise<void>;
  /** Commits under way at the same time. */
  readonly loaders: number;
  /** Most items in one commit. */
  readonly maxGroup: number;
  /** Most items that wait for a loader; with them memory is bounded. */
  readonly maxWaiting: number;
}

/** Opens a pool; nothing is left behind after `drain`. */
export function openLoaderPool<T>(options: LoaderPoolOptions<T>): LoaderPool<T> {
  const waiting: T[] = [];
  const failed: T[] = [];
  const state: { busy: number; failure: { readonly error: unknown } | null } = { busy: 0, failure: null };
  let change = Promise.withResolvers<void>();

  function tellChange(): void {
    change.resolve();
    change = Promise.withResolvers<void>();
  }

  async function commit(group: readonly T[]): Promise<void> {
    try {
      await options.commit(group);
    } catch (error) {
      failed.push(...group);
      throw error;
    }
  }

  /** One loader: works until nothing waits any more. Never rejects. */
  async function load(): Promise<void> {
    state.busy += 1;
    try {
      while (waiting.length > 0 && state.failure === null) {
        const group = waiting.splice(0, options.maxGroup);
        tellChange();
        await commit(group);
      }
    } catch (error) {
      // Only the first failure counts: what follows is mostly its echo.
      state.failure ??= { error };
    } finally {
      state.busy -= 1;
      tellChange();
    }
  }

  function throwFailure(): void {
    if (state.failure) throw state.failure.error;
  }

  return {
    async push(item) {
      while (waiting.length >= options.maxWaiting && state.failure === null) await change.promise;
      if (state.failure) failed.push(item);
      throwFailure();
      waiting.push(item);
      if (state.busy < options.loaders) void load();
    },
    async drain() {
      while (state.busy > 0) await change.promise;
      throwFailure();
    },
    left: () => [...failed, ...waiting],
  };
}
