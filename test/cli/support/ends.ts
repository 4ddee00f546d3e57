/** Counters of rows read: each row is in exactly one of them. */
export const ENDS = [
  "records_unchanged",
  "records_duplicate",
  "records_suppressed",
  "records_waiting",
  "records_sent",
  "records_rejected_before_sending",
  "records_remaining",
];
