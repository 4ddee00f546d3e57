import { personChildren } from "../schemas/person.ts";

const byType: Readonly<Record<string, readonly string[]>> = {
  resolve: ["resolution", "match_history"],
  validate_emails: ["email_validation", "input_email"],
  segment_members: ["segment", "segment_member", "segment_membership_history", "segment_sync"],
  segment_push: ["segment", "segment_push_member"],
  search_usage: ["person_search_quota", "person_search_usage_daily"],
  endpoint_usage: ["endpoint_usage", "endpoint_usage_bucket"],
  death_signals: ["death_signal", "segment_death_signal"],
  enrich: ["enrichment", "match_history", "person", ...personChildren.map((t) => t.name), "person_pid_alias"],
};

/** The tables that a job type keeps up to date: each of its successful runs makes them fresh. */
export function tablesWrittenBy(jobType: string): readonly string[] {
  return byType[jobType] ?? [];
}
