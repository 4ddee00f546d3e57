import { httpUrl, isFileReference } from "./addresses.ts";
import { text, wholeNumber } from "./described.ts";

/** Settings of a BigQuery project: billing and credentials. */
export const bigQueryProject = {
  project: text(
    { expects: "the ID of a Google Cloud project" },
    (value) => !/^[a-z][a-z0-9:.-]{2,61}[a-z0-9]$/.test(value),
  ),
  credentials: text(
    {
      expects: "`adc` or file:PATH of a service account's key",
      hint: "adc means Application Default Credentials",
    },
    (value) => value !== "adc" && !isFileReference(value),
  ).default("adc"),
  /** Service account to act as. */
  impersonate_service_account: text(
    { expects: "the e-mail address of a service account" },
    (value) => !/^[^@\s]+@[^@\s]+$/.test(value),
  ).optional(),
  /** Address of an emulator. */
  api_endpoint: httpUrl().optional(),
  maximum_bytes_billed: wholeNumber(10_485_760, Number.MAX_SAFE_INTEGER).optional(),
};

/** Location of BigQuery datasets. */
export function bigQueryLocation() {
  return text(
    { expects: "a BigQuery location such as EU or us-east1" },
    (value) => !/^[A-Za-z0-9-]+$/.test(value),
  );
}
