/** Current state of a subject of alerts. */
export interface SubjectState {
  /** `job NAME`, `freshness NAME`, `budget TYPE PERIOD`, … */
  readonly subject: string;
  /** `ok`, or a code. */
  readonly state: string;
}

/** Unreported change, which the caller must report. */
export interface StateChange extends SubjectState {
  /** State last reported; `ok` for a new subject. */
  readonly before: string;
}
