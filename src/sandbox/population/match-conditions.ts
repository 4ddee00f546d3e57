import type { matchConditionFields } from "../../schemas/enrich.ts";
import type { People } from "./people.ts";
import { chooseFields } from "./person-fields.ts";

/** A value of `match_condition_fields`. */
type Condition = (typeof matchConditionFields)[number];
type Check = (people: People, index: number, day: number) => boolean;

/** Whether a scalar field of the person is known. */
function known(field: string): Check {
  const choice = chooseFields([field]);
  return (people, index, day) => choice.text(people, index, day) !== choice.unmatchedText;
}

/** The sandbox's reading of match conditions (the interface leaves it open): the person must have the thing named. */
const CHECKS: Record<Condition, Check> = {
  linkedin_url: known("linkedin_url"),
  gender: known("gender"),
  estimated_income_range: known("estimated_income_range"),
  estimated_wealth_range: known("estimated_wealth_range"),
  home_ownership_status: known("home_ownership_status"),
  emails: (people, index, day) =>
    people.contacts.personalEmails(index).length + people.contacts.professionalEmails(index, day).length > 0,
  personal_email: (people, index) => people.contacts.personalEmails(index).length > 0,
  professional_email: (people, index, day) => people.contacts.professionalEmails(index, day).length > 0,
  phone: (people, index) => people.contacts.phones(index).length > 0,
  mobile_phone: (people, index) => people.contacts.phones(index).some((phone) => phone.type === "mobile"),
};

/** Whether a person meets every condition of a request. */
export function meetsConditions(
  people: People,
  index: number,
  day: number,
  conditions: readonly Condition[],
): boolean {
  return conditions.every((condition) => CHECKS[condition](people, index, day));
}
