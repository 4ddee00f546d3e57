import { column, type Table, table } from "./table.ts";

/** Which slots of the jobs' schedules were run, by whom, and how that ended. */
export const scheduleSlot: Table = table("schedule_slot", {
  schema: "state",
  doc: "Slots of the jobs' schedules: a slot's one row is what a scheduler claims before it runs the job.",
  key: ["job", "slot"],
  people: "nobody",
  columns: [
    column("job", "text", "none", "The job."),
    column(
      "slot",
      "text",
      "none",
      "Wall time and zone of a slot at fixed hours, else its instant; `first` for when the job was first watched.",
    ),
    column("due_at", "timestamptz", "none", "When it was due.", true),
    column("run_id", "text", "none", "Run that did it; null where none did."),
    column(
      "status",
      "text",
      "none",
      "`claimed`, `given_back`, `watched`, `missed`, or how the job ended.",
      true,
    ),
    column("owner", "text", "none", "Scheduler that claimed it.", true),
    column("host", "text", "none", "Machine of the scheduler."),
    column("pid", "integer", "none", "Process of the scheduler."),
    column("attempts", "integer", "none", "How often it was claimed.", true),
    column("claimed_at", "timestamptz", "none", "When it was last claimed, by the warehouse's clock.", true),
    column("expires_at", "timestamptz", "none", "From then on another scheduler may claim it.", true),
    column("ended_at", "timestamptz", "none", "When it was done with; null before."),
  ],
});

/** What alerts were told of, so that each change is told once. */
export const alertState: Table = table("alert_state", {
  schema: "state",
  doc: "State of everything that alerts speak of, and the state that was last told.",
  key: ["subject"],
  people: "nobody",
  columns: [
    column("subject", "text", "none", "`job NAME`, `freshness NAME`, or `budget TYPE PERIOD`."),
    column("state", "text", "none", "`ok`, or a code.", true),
    column("told_state", "text", "none", "State that was last told, or needed no telling.", true),
    column("changed_at", "timestamptz", "none", "Since when it is in this state.", true),
    column("told_at", "timestamptz", "none", "When it was last told; null for never."),
  ],
});
