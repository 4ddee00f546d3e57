/** A body that is received, then held until it is used or stored. */
export interface Receipt {
  /** Counts bytes of the body; waits until there is room for more. */
  add(bytes: number): Promise<void>;
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
        async add(bytes) {
          own += bytes;
          used += bytes;
          while (mustWait()) await changed.promise;
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
