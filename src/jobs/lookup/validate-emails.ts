import type { JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { extraCell, flattenerOf } from "../../schemas/flatten.ts";
import { validateEmailsEndpoint, validateFields } from "../../schemas/validate-emails.ts";
import { pickExtra } from "./answer-extra.ts";
import { type LookupJobType, lookupSettings, withRefresh } from "./lookup-type.ts";

const settings = jobSettings("validate_emails", lookupSettings).transform(withRefresh);

/** Job that validates the e-mail addresses of each input row. */
export type ValidateEmailsJobConfig = JobOf<typeof settings>;

const flattener = flattenerOf(validateEmailsEndpoint.result);
const cellAt = Object.keys(validateFields).map((name) => flattener.fieldNames.indexOf(name));

/** Validates the addresses of each input row: `POST /v2/validate_emails` into `email_validation`. */
export const validateEmailsJob: LookupJobType<ValidateEmailsJobConfig> = {
  type: "validate_emails",
  settings,
  isBilled: true,
  writes: ["email_validation", "input_email"],
  complaints: (_job, { inputFields }) =>
    inputFields === null || inputFields.includes("emails")
      ? []
      : [
          {
            path: ["input"],
            message: "the input maps no emails",
            hint: "add emails to the fields of the input",
          },
        ],
  endpoint: validateEmailsEndpoint,
  inputFields: ["emails"],
  requestParameters: () => ({}),
  boughtWith: () => [],
  pidFrom: () => null,
  validEmailsFrom: () => null,
  readerOf: () => (result, drift) => {
    const { object } = flattener.flatten(result, null, drift);
    return {
      outcome: validateEmailsEndpoint.isMatch(result) ? "matched" : "unmatched",
      servicePid: null,
      cells: cellAt.map((i) => object.cells[i] ?? null),
      // The stored address is the one sent, not the one returned.
      extra: extraCell(pickExtra(object.extra, (name) => name !== "email_address")),
      person: null,
    };
  },
};
