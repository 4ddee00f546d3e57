/** Memory of all answers, from the request to the commit. Functions below change it. */
export interface Memory {
  readonly maxBytes: number;
  /** Bytes of all leases; above `maxBytes` only while the oldest body is larger than expected. */
  usedBytes: number;
  /** First come, first served. */
  readonly waiting: Waiting[];
  /** Leases of bodies being received, oldest first. */
  readonly receiving: Set<Lease>;
  /** Leases of whole bodies and of rows, which are released without waiting for more. */
  readonly held: Set<Lease>;
  release: PromiseWithResolvers<void>;
}

/** Bytes taken for one answer. */
export interface Lease {
  readonly memory: Memory;
  bytes: number;
  /** Bytes of the body received so far. */
  receivedBytes: number;
}

interface Waiting {
  readonly lease: Lease;
  readonly start: () => void;
}

export function createMemory(maxBytes: number): Memory {
  return {
    maxBytes,
    usedBytes: 0,
    waiting: [],
    receiving: new Set(),
    held: new Set(),
    release: Promise.withResolvers(),
  };
}

/** Opens a lease of nothing, for a call of unknown size that is not worth waiting for. */
export function openLease(memory: Memory): Lease {
  return { memory, bytes: 0, receivedBytes: 0 };
}

/** Waits until the bytes are free, first come, first served. More than the whole budget is taken alone. */
export async function takeMemory(memory: Memory, bytes: number): Promise<Lease> {
  const lease = { memory, bytes: Math.min(bytes, memory.maxBytes), receivedBytes: 0 };
  const turn = Promise.withResolvers<void>();
  memory.waiting.push({ lease, start: turn.resolve });
  startWaiting(memory);
  await turn.promise;
  return lease;
}

function startWaiting(memory: Memory): void {
  for (let next = memory.waiting[0]; next; next = memory.waiting[0]) {
    if (memory.usedBytes + next.lease.bytes > memory.maxBytes) return;
    memory.usedBytes += next.lease.bytes;
    memory.waiting.shift();
    next.start();
  }
}

function setBytes(lease: Lease, bytes: number): void {
  const { memory } = lease;
  memory.usedBytes += bytes - lease.bytes;
  lease.bytes = bytes;
}

function wake(memory: Memory): void {
  memory.release.resolve();
  memory.release = Promise.withResolvers();
  startWaiting(memory);
}

/** Corrects a lease once its size is known. Returns false, without a change, if more bytes are needed than are free. */
export function resizeLease(lease: Lease, bytes: number): boolean {
  const { memory } = lease;
  const wanted = Math.min(bytes, memory.maxBytes);
  if (bytes > lease.bytes && memory.usedBytes - lease.bytes + wanted > memory.maxBytes) return false;
  const isLess = wanted < lease.bytes;
  setBytes(lease, wanted);
  memory.held.add(lease);
  if (isLess) wake(memory);
  return true;
}

/** Releases the bytes of a lease; idempotent. */
export function releaseLease(lease: Lease): void {
  const { memory } = lease;
  memory.receiving.delete(lease);
  memory.held.delete(lease);
  setBytes(lease, 0);
  wake(memory);
}

/** Marks the start of a body, which may be larger than expected. */
export function beginReceiving(lease: Lease): void {
  lease.memory.receiving.add(lease);
}

/** Marks the end of a body: it grows no more. */
export function endReceiving(lease: Lease): void {
  if (lease.memory.receiving.delete(lease)) lease.memory.held.add(lease);
}

/**
 * Counts received bytes. Waits while the budget is exceeded; with nothing held, the oldest body never waits, so that bodies
 * received side by side can't block each other. Throws the signal's reason if aborted first.
 */
export async function receiveBytes(lease: Lease, bytes: number, signal: AbortSignal): Promise<void> {
  const { memory } = lease;
  lease.receivedBytes += bytes;
  if (lease.receivedBytes <= lease.bytes) return;
  setBytes(lease, lease.receivedBytes);
  const isNext = () => memory.held.size === 0 && memory.receiving.values().next().value === lease;
  const mustWait = () => memory.usedBytes > memory.maxBytes && memory.receiving.has(lease) && !isNext();
  if (!mustWait()) return;
  const aborted = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => aborted.resolve(), { once: true });
  while (mustWait()) {
    signal.throwIfAborted();
    await Promise.race([memory.release.promise, aborted.promise]);
  }
}
