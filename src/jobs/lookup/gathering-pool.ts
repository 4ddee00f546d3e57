import type { Clock } from "../../clock.ts";
import type {
  CommitGroup,
  CommitHead,
  CommitResult,
  Gathering,
  LookupPart,
  Warehouse,
} from "../../load/warehouse.ts";
import type { Outage } from "../outage.ts";

/** Commits the calls that arrive, each at once or many together, as the warehouse has it. */
export interface CommitPool<Call, Kept> {
  /** Hands over one call; waits while too many are waiting. Rejects once a commit has failed. */
  push(call: Call): Promise<void>;
  /** Waits until everything is committed; rejects with the first commit's failure. */
  drain(): Promise<void>;
  /** What was handed over and, after a failure, not committed. */
  left(): readonly Kept[];
}

/** How calls are committed. */
export interface CommitPoolOptions<Call, Kept> {
  readonly warehouse: Pick<Warehouse, "commitLookup" | "gathering" | "openCommit" | "parallelCommits">;
  readonly outage: Outage;
  readonly clock: Clock;
  headOf(call: Call): CommitHead;
  partOf(call: Call): LookupPart;
  /** What is needed of a call after its commit: of those that wait for one nothing else stays in memory. */
  keep(call: Call): Kept;
  committed(calls: readonly Kept[], result: CommitResult): Promise<void>;
}

/** Calls that are gathered for one commit. */
interface Batch<Kept> {
  /** Whose they are: only calls of one head can be committed together. */
  readonly head: string;
  readonly group: CommitGroup;
  readonly calls: Kept[];
  records: number;
  isOld: boolean;
  /** Ends the wait for its age. */
  readonly sealed: AbortController;
}

/**
 * Gathers calls until they are many or old enough, and commits one batch while the next is gathered. Their content is
 * with the warehouse, on disk; here only what is needed afterwards is kept.
 */
export function openGatheringPool<Call, Kept>(
  options: CommitPoolOptions<Call, Kept>,
  { maxRecords, maxAgeMs }: Gathering,
): CommitPool<Call, Kept> {
  const { warehouse, outage, clock } = options;
  const failed: Kept[] = [];
  const state: {
    batch: Batch<Kept> | null;
    isAdding: boolean;
    /** The commit under way; never rejects. */
    committing: Promise<void> | null;
    failure: { readonly error: unknown } | null;
  } = { batch: null, isAdding: false, committing: null, failure: null };

  function throwFailure(): void {
    if (state.failure) throw state.failure.error;
  }

  async function open(call: Call, head: string): Promise<Batch<Kept>> {
    const group = await warehouse.openCommit(options.headOf(call));
    const batch: Batch<Kept> = {
      head,
      group,
      calls: [],
      records: 0,
      isOld: false,
      sealed: new AbortController(),
    };
    void waitForAge(batch);
    return batch;
  }

  /** Never rejects. */
  async function waitForAge(batch: Batch<Kept>): Promise<void> {
    await clock.sleep(maxAgeMs, batch.sealed.signal).catch(() => {});
    if (batch.sealed.signal.aborted) return;
    batch.isOld = true;
    if (!state.isAdding && state.committing === null) startCommit();
  }

  async function commit(batch: Batch<Kept>): Promise<void> {
    try {
      const result = await outage.outlast(() => batch.group.commit());
      await options.committed(batch.calls, result);
    } catch (error) {
      failed.push(...batch.calls);
      // Only the first failure counts: what follows is mostly its echo.
      state.failure ??= { error };
      await batch.group.discard().catch(() => {});
    } finally {
      state.committing = null;
      // The next one may have become old meanwhile.
      if (state.batch?.isOld && !state.isAdding && state.failure === null) startCommit();
    }
  }

  function startCommit(): void {
    const { batch } = state;
    if (batch === null) return;
    state.batch = null;
    batch.sealed.abort();
    state.committing = commit(batch);
  }

  /** Begins the commit of what has been gathered, after the one that is under way. */
  async function seal(): Promise<void> {
    while (state.committing !== null) await state.committing;
    if (state.failure === null) startCommit();
  }

  /** @param onTaken called once the call is in a batch. */
  async function add(call: Call, onTaken: () => void): Promise<void> {
    const head = JSON.stringify(options.headOf(call));
    if (state.batch !== null && state.batch.head !== head) await seal();
    throwFailure();
    state.batch ??= await open(call, head);
    const { batch } = state;
    const part = options.partOf(call);
    await batch.group.add(part);
    batch.calls.push(options.keep(call));
    onTaken();
    batch.records += part.answers.length + part.rejects.length;
    if (batch.records >= maxRecords || batch.isOld) await seal();
    throwFailure();
  }

  return {
    async push(call) {
      state.isAdding = true;
      let isTaken = false;
      try {
        throwFailure();
        await add(call, () => {
          isTaken = true;
        });
      } catch (error) {
        if (!isTaken) failed.push(options.keep(call));
        state.failure ??= { error };
        throw error;
      } finally {
        state.isAdding = false;
      }
    },
    async drain() {
      await seal();
      while (state.committing !== null) await state.committing;
      const { batch } = state;
      if (batch !== null) {
        state.batch = null;
        batch.sealed.abort();
        failed.push(...batch.calls);
        await batch.group.discard().catch(() => {});
      }
      throwFailure();
    },
    left: () => failed,
  };
}
