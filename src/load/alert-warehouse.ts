/** The present state of something that alerts speak of. */
export interface SubjectState {
  /** `job NAME`, `freshness NAME`, `budget TYPE PERIOD`, … */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
}

/** A change that nobody was told of, and that the caller has to tell now. */
export interface StateChange extends SubjectState {
  /** State that was told before; `ok` for a subject never heard of. */
  readonly before: string;
}

/** What alerts were told of: the part of a warehouse that makes each change be told once, whoever sees it. */
export interface AlertWarehouse {
  /** Notes states and returns the changes that are to be told; each is returned to one caller only. */
  changeStates(states: readonly SubjectState[], runId: string): Promise<readonly StateChange[]>;
  /** Takes back that changes were told, so that they come again. */
  untellStates(changes: readonly StateChange[]): Promise<void>;
}
