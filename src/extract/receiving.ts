/** A body that is received, then held until it is used or stored. */
export interface Receipt {
  /** Counts bytes of the body; waits while the budget is used up. Throws the signal's reason if aborted first. */
  add(bytes: number, signal: AbortSignal): Promise<void>;
  /** Marks the body as whole: it grows no more. */
  complete(): void;
  /** Releases its bytes; idempotent. */
  release(): void;
}

/** Bounds the bodies in memory to `maxBytes`, or to a single larger one. */
export interface Receiving {
  begin(): Receipt;
}

/** Opens a bound. With no whole body held, the oldest never waits: bodies received side by side can't block each other. */
export function createReceiving(maxBytes: number): Receiving {
  const growing = new Set<object>();
  const whole = new Set<object>();
  let used = 0;
  let changed = Promise.withResolvers<void>();

  function wake(): void {
    changed.resolve();
    changed = Promise.withResolvers();
  }

  return {
    begin() {
      const body = {};
      let own = 0;
      growing.add(body);
      const isNext = () => whole.size === 0 && growing.values().next().value === body;
      const mustWait = () => used > maxBytes && growing.has(body) && !isNext();
      return {
        async add(bytes, signal) {
          own += bytes;
          used += bytes;
          if (!mustWait()) return;
          const aborted = Promise.withResolvers<void>();
          signal.addEventListener("abort", () => aborted.resolve(), { once: true });
          while (mustWait()) {
            signal.throwIfAborted();
            await Promise.race([changed.promise, aborted.promise]);
          }
        },
        complete() {
          if (growing.delete(body)) whole.add(body);
        },
        release() {
          if (!growing.delete(body) && !whole.delete(body)) return;
          used -= own;
          wake();
        },
      };
    },
  };
}
