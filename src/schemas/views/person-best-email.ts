import { column } from "../table.ts";
import type { View } from "./view.ts";

/** Best e-mail address of each person. */
export const personBestEmail: View = {
  name: "person_best_email",
  schema: "data",
  doc:
    "Best e-mail address of each person: `valid` ones first, then those not known to be invalid, then `invalid` ones; of these the " +
    "personal ones first, then lowest `email_rank`, then lowest `position`. Filter on `email_validation_status` before you send.",
  columns: [
    column("service_pid", "text", "direct", "PID of the person."),
    column("email_address", "text", "direct", "E-mail address, as received."),
    column("email_type", "text", "none", "`personal` or `professional`."),
    column("email_rank", "integer", "none", "Rank among the person's addresses of this type."),
    column(
      "email_validation_status",
      "text",
      "none",
      "`valid`, `invalid` or `unknown`; null if the address was not validated, or not known to the service. Upper and lower case are equal.",
    ),
  ],
  reads: ["person_email", "email_validation"],
  // A window, since the order depends on a join: an anti-join of two joins takes minutes on a million people.
  select: (_, ref) => `SELECT service_pid, email_address, email_type, email_rank, email_validation_status
FROM (
  SELECT e.service_pid, e.email_address, e.email_type, e.email_rank, v.email_validation_status,
    row_number() OVER (PARTITION BY e.service_pid ORDER BY
      CASE v.email_validation_status WHEN 'valid' THEN 1 WHEN 'invalid' THEN 3 ELSE 2 END,
      e.email_type, e.email_rank NULLS LAST, e.position) AS place
  FROM ${ref("person_email")} AS e
  LEFT JOIN ${ref("email_validation")} AS v ON lower(v.email_address) = lower(e.email_address)
  WHERE e.email_address IS NOT NULL) AS ranked
WHERE place = 1`,
};
