import { withJoins } from "../joins.ts";
import { personBestPhone, personCurrentAddress, personCurrentJob } from "./best-of-person.ts";
import { costDaily } from "./cost-daily.ts";
import { duplicateInputRow } from "./duplicate-input-row.ts";
import { fieldCoverage } from "./field-coverage.ts";
import { identityLink } from "./identity-link.ts";
import { personBestEmail } from "./person-best-email.ts";
import { personEducationSubject } from "./person-education-subject.ts";
import { tableFreshness } from "./table-freshness.ts";
import { usageReconciliation } from "./usage-reconciliation.ts";
import type { View } from "./view.ts";

/** Every declared view, each after those that it reads. */
export const views: readonly View[] = [
  identityLink,
  duplicateInputRow,
  personBestEmail,
  personBestPhone,
  personCurrentAddress,
  personCurrentJob,
  personEducationSubject,
  fieldCoverage,
  costDaily,
  tableFreshness,
  usageReconciliation,
].map((view) => ({ ...view, columns: withJoins(view) }));
