/** Bytes of answers that may be in memory at the same time. */
export interface ByteBudget {
  /** Waits for room, first come, first served; returns what gives it back. Takes at most the whole budget. */
  take(bytes: number): Promise<() => void>;
}

/** Opens a budget. */
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
      const bytes = Math.min(wanted, maxBytes);
      const turn = Promise.withResolvers<void>();
      waiting.push({ bytes, start: turn.resolve });
      startNext();
      await turn.promise;
      let isGivenBack = false;
      return () => {
        if (isGivenBack) return;
        isGivenBack = true;
        used -= bytes;
        startNext();
      };
    },
  };
}
