import type { SentPerson } from "../population/match-person.ts";

/** What is wrong with a record, by field; null when nothing is. */
export type ValidationErrors = Readonly<Record<string, readonly string[]>> | null;

const EMAIL = /^\s*[^\s@]+@[^\s@]+\.[^\s@]+\s*$/;

/** Looks for values that can't be what their field says; such a record is answered all the same. */
export function findMalformed(sent: SentPerson): ValidationErrors {
  const errors: Record<string, readonly string[]> = {};
  if (sent.emails?.some((email) => !EMAIL.test(email)))
    errors["emails"] = ["value is not a valid email address"];
  if (sent.phones?.some((phone) => phone.replace(/\D/g, "").length < 7)) {
    errors["phones"] = ["value is not a valid phone number"];
  }
  return Object.keys(errors).length > 0 ? errors : null;
}
