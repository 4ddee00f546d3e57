import { type SchemaNames, tableText } from "../src/load/db/names.ts";

/** Creates the index with which `profile_INPUT` finds a person's death signals. The upgrade then creates these views. */
export function indexDeathSignals(names: SchemaNames): readonly string[] {
  return [
    `CREATE INDEX IF NOT EXISTS segment_death_signal_by_pid ON ${tableText(names, "segment_death_signal")} (service_pid)`,
  ];
}
