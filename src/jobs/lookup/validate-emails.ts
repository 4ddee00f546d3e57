import type { ValidateEmailsJobConfig } from "../../config/config.ts";
import { extraCell, flattenerOf } from "../../schemas/flatten.ts";
import { validateEmailsEndpoint, validateFields } from "../../schemas/validate-emails.ts";
import { pickExtra } from "./answer-extra.ts";
import type { LookupJobType } from "./lookup-type.ts";

const flattener = flattenerOf(validateEmailsEndpoint.result);
const cellAt = Object.keys(validateFields).map((name) => flattener.fieldNames.indexOf(name));

/** Validates the addresses of each input row: `POST /v2/validate_emails` into `email_validation`. */
export const validateEmailsJob: LookupJobType<ValidateEmailsJobConfig> = {
  endpoint: validateEmailsEndpoint,
  inputFields: ["emails"],
  requestParameters: () => ({}),
  pidFrom: () => null,
  validEmailsFrom: () => null,
  readerOf: () => (result, drift) => {
    const { is_match: said, email_validation_status: status } = result;
    const isMatch = typeof said === "boolean" ? said : typeof status === "string";
    const { object } = flattener.flatten(result, null, drift);
    return {
      outcome: isMatch ? "matched" : "unmatched",
      servicePid: null,
      cells: cellAt.map((i) => object.cells[i] ?? null),
      // The address is kept as it was sent, whatever the service makes of it.
      extra: extraCell(pickExtra(object.extra, (name) => name !== "email_address")),
      person: null,
    };
  },
};
