import { column } from "../table.ts";
import type { View } from "./view.ts";

/** Input rows of the same person. */
export const duplicateInputRow: View = {
  name: "duplicate_input_row",
  schema: "data",
  doc: "Input rows whose best current match is the same person as that of another input row.",
  columns: [
    column("source", "text", "none", "Name of the input."),
    column("source_key", "text", "direct", "The input row's key as text."),
    column("service_pid", "text", "direct", "PID that the rows share."),
    column("input_rows", "integer", "none", "Number of input rows with this PID, of all inputs; at least 2."),
  ],
  reads: ["identity_link"],
  select: (_, ref) => `SELECT source, source_key, service_pid, input_rows
FROM (
  SELECT source, source_key, service_pid, count(*) OVER (PARTITION BY service_pid) AS input_rows
  FROM ${ref("identity_link")}) AS linked
WHERE input_rows > 1`,
};
