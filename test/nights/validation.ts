import type { Script } from "./scripted-service.ts";

export const validate = (more = "") => ({
  jobs: `{ validate: { type: validate_emails, input: customers${more} } }`,
  input: "order_by: id",
});
export const dropping = {
  jobs: `{ validate: { type: validate_emails, input: customers, refresh_after: 30d },
    enrich: { type: enrich, input: customers, valid_emails_from: validate } }`,
};
export const withStatus = (email_validation_status: string): Script => ({
  result: (usual, record) => (typeof record === "string" ? { ...usual, email_validation_status } : usual),
});
export const invalid = withStatus("invalid");
export const listed = "SELECT source_key, position, email_address FROM input_email";
