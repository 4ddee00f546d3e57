import { column } from "../table.ts";
import type { Dialect, View } from "./view.ts";

/** One kind of subject of each experience, one row per subject. */
function subjectRows(dialect: Dialect, experience: string, kind: "major" | "minor"): string {
  const list = `education_${kind}s`;
  const head = `SELECT e.service_pid, e.position AS education_position, '${kind}' AS subject_type`;
  const tail = `e._synced_at, e._run_id\nFROM ${experience} AS e`;
  if (dialect === "duckdb") {
    const place = `CAST(unnest(range(len(e.${list}))) AS integer)`;
    return `${head}, ${place} AS position, unnest(e.${list}) AS subject, ${tail}`;
  }
  if (dialect === "bigquery") {
    return `${head}, place AS position, subject, ${tail} CROSS JOIN UNNEST(e.${list}) AS subject WITH OFFSET AS place`;
  }
  const rows = `CROSS JOIN LATERAL unnest(e.${list}) WITH ORDINALITY AS s(subject, place)`;
  return `${head}, (s.place - 1)::integer AS position, s.subject, ${tail} ${rows}`;
}

/** Subjects of education as rows. */
export const personEducationSubject: View = {
  name: "person_education_subject",
  schema: "data",
  doc: "Majors and minors of `person_education_experience`, one row per subject.",
  columns: [
    column("service_pid", "text", "direct", "PID of the person."),
    column("education_position", "position", "none", "`position` of the experience."),
    column("subject_type", "text", "none", "`major` or `minor`."),
    column("position", "position", "none", "0-based index in the list."),
    column("subject", "text", "indirect", "Name of the subject."),
    column("_synced_at", "timestamptz", "none", "When the experience last changed."),
    column("_run_id", "text", "none", "Run that last changed the experience."),
  ],
  reads: ["person_education_experience"],
  select: (dialect, ref) =>
    (["major", "minor"] as const)
      .map((kind) => subjectRows(dialect, ref("person_education_experience"), kind))
      .join("\nUNION ALL\n"),
};
