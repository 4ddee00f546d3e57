/** Limit of the bytes of answers in memory. */
export interface ByteBudget {
  /**
   * Waits until the bytes are available, first come, first served. Takes at most the whole budget. Returns a function that
   * releases them, except for those to be kept.
   */
  take(bytes: number): Promise<(kept?: number) => void>;
}

/** Creates a budget. */
export function createByteBudget(maxBytes: number): ByteBudget {
  const waiting: { readonly bytes: number; readonly start: () => void }[] = [];
  let used = 0;

  function startNext(): void {
    for (let next = waiting[0]; next && used + next.bytes <= maxBytes; next = waiting[0]) {
      used += next.bytes;
      waiting.shift();
      next.start();
    }
  }

  return {
    async take(wanted) {
      let bytes = Math.min(wanted, maxBytes);
      const turn = Promise.withResolvers<void>();
      waiting.push({ bytes, start: turn.resolve });
      startNext();
      await turn.promise;
      return (kept = 0) => {
        if (kept >= bytes) return;
        used -= bytes - kept;
        bytes = kept;
        startNext();
      };
    },
  };
}
