/** Counters of outcomes: each row read is in exactly one. */
export const ENDS = [
  "records_unchanged",
  "records_duplicate",
  "records_suppressed",
  "records_waiting",
  "records_sent",
  "records_rejected_before_sending",
  "records_remaining",
];
