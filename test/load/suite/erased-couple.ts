import type { Identifiers, InputSource } from "../../../src/load/inputs/input.ts";
import type { RowsByTable } from "../../../src/load/erasure/subjects.ts";
import { tables } from "../../../src/schemas/registry.ts";
import { matchAll, type Responder, runNight } from "./nights.ts";
import { enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";
import { wholePerson } from "./person-updates.ts";
import { type Context, schemaNames } from "./context.ts";

/** Tables that contain one of the texts, except the tombstones. */
export async function findTraces(
  context: Pick<Context, "sql">,
  texts: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { name, schema, people } of tables) {
    if (people === "kept") continue;
    const rows = JSON.stringify(
      await context.sql(`SELECT * FROM ${schemaNames[schema]}.${name}`),
    ).toLowerCase();
    for (const text of texts) if (rows.includes(text.toLowerCase())) found.push(`${name}: ${text}`);
  }
  return found;
}

/** The same, including undeclared tables: work lists of current and killed runs. */
export async function findTracesAnywhere(
  context: Pick<Context, "sql"> & {
    /** Names of all tables in the state schema. */
    tableNames(): Promise<readonly string[]>;
    /** Rows of a table in the state schema, as text. */
    rowsText(table: string): Promise<string>;
  },
  texts: readonly string[],
): Promise<readonly string[]> {
  const found = [...(await findTraces(context, texts))];
  const declared = new Set(tables.map(({ name }) => name));
  for (const name of await context.tableNames()) {
    if (declared.has(name)) continue;
    const rows = await context.rowsText(name);
    for (const text of texts) if (rows.includes(text)) found.push(`${name}: ${text}`);
  }
  return found;
}

export const nobody: Identifiers = { pids: [], emails: [], rows: [] };

/** Erases people by identifiers, like the program. */
export async function erase(
  { warehouse }: Context,
  named: Partial<Identifiers>,
  inputs: readonly InputSource[] = [people],
): Promise<{ readonly id: string; readonly people: Identifiers; readonly removed: RowsByTable }> {
  const found = await warehouse.findPeople({ ...nobody, ...named }, inputs);
  const { erasureId: id } = await warehouse.requestErasure(found);
  return { id, people: found.people, removed: await warehouse.removeErased(id) };
}

export const emails = (...addresses: string[]) =>
  addresses.map((email_address, i) => ({ email_rank: i + 1, email_address }));

export const ann = wholePerson("p-ann", {
  full_name: "Ann Lee",
  first_name: "Ann",
  service_spouse_pid: "p-bob",
  personal_emails: emails("Ann@Home.example", "ann@other.example"),
  phones: [{ phone_rank: 1, phone_type: "mobile", phone_number: "+1 555 0100" }],
  relatives: [{ relative_service_pid: "p-bob", relative_first_name: "Bob" }],
  address_history: [{ address_rank: 1, address_line_1: "1 Elm Street", address_city: "Austin" }],
  work_experience: [{ experience_rank: 1, work_company_name: "Acme", work_title: "Nurse" }],
  education_experience: [{ experience_rank: 1, institution_name: "Juilliard", education_majors: ["Music"] }],
});
export const bob = wholePerson("p-bob", {
  full_name: "Bob Roe",
  first_name: "Bob",
  service_spouse_pid: "p-ann",
  personal_emails: emails("bob@home.example"),
  relatives: [
    { relative_service_pid: "p-ann", relative_first_name: "Ann" },
    { relative_service_pid: "p-cid", relative_first_name: "Cid" },
  ],
});

/** Values that identify only Ann. */
export const ofAnn = ["p-ann", "ann@", "Ann", "555 0100", "Elm Street", "Nurse", "Juilliard", "key-ann"];

export const rows = [
  { id: "key-ann", first_name: "Ann", last_name: "Lee", email: "ann@work.example", phone: "5550100" },
  { id: "key-bob", first_name: "Bob", last_name: "Roe", email: "bob@work.example", phone: "5550101" },
];

const replyOf = {
  "key-ann": { pid: "p-ann", person: ann },
  "key-bob": { pid: "p-bob", person: bob },
} as const;
/** Ann and Bob, a married couple. */
export const answer: Responder = ({ keys: [key] }) =>
  key === "key-ann" || key === "key-bob" ? replyOf[key] : null;

/** Writes Ann and Bob to every table of lookups. */
export async function makeCouple(context: Context): Promise<void> {
  await makePeople(context, rows);
  await runNight(context, resolveSpec(), answer);
  await runNight(context, validateSpec(), matchAll);
  await runNight(context, enrichSpec(), answer);
  await context.sql(`INSERT INTO person_data.person_pid_alias VALUES
    ('p-ann-old', 'p-ann', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 'earlier')`);
}
