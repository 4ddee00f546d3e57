import type { Table } from "../../load/inputs/browse.ts";
import { copyWords, peopleWords } from "./column-words.ts";
import { type Fields, proposeFields } from "./propose-fields.ts";
import { wordsOf } from "./recognize-column.ts";

/** Points of a table's fields; a table with at least {@link ENOUGH} looks like people. */
const POINTS: Readonly<Partial<Record<keyof Fields, number>>> = {
  service_pid: 3,
  first_name: 1,
  last_name: 2,
  full_name: 1,
  emails: 3,
  phones: 2,
  linkedin_url: 2,
  address_line_1: 1,
  zipcode: 1,
};
const ENOUGH = 3;

/** Tables that look like people, the likeliest first. */
export function findPeople(tables: readonly Table[]): readonly Table[] {
  return tables
    .map((table) => ({ table, points: pointsOf(table) }))
    .filter(({ points }) => points >= ENOUGH)
    .toSorted((a, b) => b.points - a.points || (b.table.rows ?? 0) - (a.table.rows ?? 0))
    .map(({ table }) => table);
}

function pointsOf(table: Table): number {
  const { fields } = proposeFields(table);
  const points = Object.keys(fields).map((field) => POINTS[field as keyof Fields] ?? 0); // keys of Fields
  const sum = points.reduce((a, b) => a + b, 0);
  const namesPerson = ["last_name", "full_name", "emails", "phones", "linkedin_url", "service_pid"].some(
    (field) => field in fields,
  );
  if (!namesPerson) return 0;
  const words = wordsOf(table.name);
  const isOfPeople = words.some((word) => peopleWords.has(word));
  const isCopy = words.some((word) => copyWords.has(word));
  return sum + (isOfPeople ? 2 : 0) - (isCopy ? 3 : 0);
}

/** Lists what a table has of people: `name, 2 emails, phone, address`. */
export function summarize(table: Table): string {
  const { fields } = proposeFields(table);
  const several = (field: "emails" | "phones", one: string) => {
    const count = fields[field]?.length ?? 0;
    return count > 1 ? `${count} ${field}` : count === 1 ? one : "";
  };
  return [
    fields.last_name || fields.full_name ? "name" : "",
    several("emails", "email"),
    several("phones", "phone"),
    fields.linkedin_url ? "LinkedIn" : "",
    fields.address_line_1 || fields.full_address || fields.zipcode ? "address" : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}
