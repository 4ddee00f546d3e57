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
