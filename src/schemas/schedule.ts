import { column, type Table, table } from "./table.ts";

/** Slots of the schedules, with their scheduler and outcome. */
export const scheduleSlot: Table = table("schedule_slot", {
  schema: "state",
  doc: "Slots of the jobs' schedules: a scheduler claims a slot's row before it runs the job.",
  key: ["job", "slot"],
  people: "nobody",
  columns: [
    column("job", "text", "none", "The job."),
    column(
      "slot",
      "text",
      "none",
      "Wall time and zone for fixed hours, otherwise the instant; `first`: when the job was first scheduled.",
    ),
    column("due_at", "timestamptz", "none", "When it was due.", true),
    column("run_id", "text", "none", "Run of the slot; null if none ran."),
    column(
      "status",
      "text",
      "none",
      "`claimed`, `given_back`, `watched`, `missed`, or the outcome of the job.",
      true,
    ),
    column("owner", "text", "none", "Scheduler that claimed it.", true),
    column("host", "text", "none", "Machine of the scheduler."),
    column("pid", "integer", "none", "Process of the scheduler."),
    column("attempts", "integer", "none", "Number of claims.", true),
    column("claimed_at", "timestamptz", "none", "When it was last claimed, by the warehouse's clock.", true),
    column("expires_at", "timestamptz", "none", "When another scheduler may claim it.", true),
    column("ended_at", "timestamptz", "none", "When it ended; null before."),
  ],
});

/** States that alerts reported, so that each change is reported once. */
export const alertState: Table = table("alert_state", {
  schema: "state",
  doc: "State of each subject of alerts, and the state last reported.",
  key: ["subject"],
  people: "nobody",
  columns: [
    column("subject", "text", "none", "`job NAME`, `freshness NAME`, or `budget TYPE PERIOD`."),
    column("state", "text", "none", "`ok`, or a code.", true),
    column("told_state", "text", "none", "State last reported.", true),
    column("changed_at", "timestamptz", "none", "When it entered this state.", true),
    column("told_at", "timestamptz", "none", "When it was last reported; null if never."),
  ],
});
