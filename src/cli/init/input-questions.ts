import { basename } from "node:path";
import {
  type Draft,
  getsSample,
  type OpenedSource,
  profileDraft,
  type Question,
  type Reading,
  tableOf,
  tableText,
  withAnswers,
} from "./ask.ts";
import { type Fields, findPeople, proposeFields, proposeKey, summarize } from "./propose.ts";
import { wordsOf } from "./recognize-column.ts";
import { effectText } from "../commands/check-inputs.ts";
import { UsageError } from "../failure.ts";
import { listFields, scalarFields } from "../../config/schema/inputs.ts";
import { isFileName, parseTableName } from "../../config/schema/values.ts";
import { suggest } from "../../suggest.ts";
import type { ConfigAnswers } from "../../config/template.ts";
import { count, countText } from "../../figures.ts";
import type { Table } from "../../load/inputs/postgres-profile.ts";
import { containsUniqueKey } from "../../load/inputs/postgres.ts";

const SHOWN = 9;

/** Mapping of the sample table that the first run against the sandbox creates. */
const SAMPLE: Pick<ConfigAnswers, "key" | "fields"> = {
  key: ["id"],
  fields: {
    first_name: ["first_name"],
    last_name: ["last_name"],
    emails: ["email", "work_email"],
    phones: ["phone"],
    linkedin_url: ["linkedin"],
    address_line_1: ["street"],
    city: ["city"],
    state: ["state"],
    zipcode: ["zip"],
  },
};

const SAMPLE_TABLE = "crm.customers";

const peopleOf = ({ source }: Draft) => (source === null ? [] : findPeople(source.tables).slice(0, SHOWN));

const chosenTable = ({ source, answers }: Draft) => source && tableOf(source, answers.table);

/** Asks for the table, and proposes the rest from its columns. @param name name of the input, if it is given */
export function tableQuestion(name: string | undefined): Question {
  return {
    text: (draft) => `${listTables(draft)}Table or view of people`,
    proposal: (draft) => {
      const [likeliest] = peopleOf(draft);
      if (draft.answers.table !== "") return draft.answers.table;
      if (likeliest) return tableText(likeliest);
      return getsSample(draft) ? SAMPLE_TABLE : "";
    },
    unanswered: flagsText,
    given: (flags) => flags.table,
    owns: ({ path }, { answers }) =>
      path === `inputs.${answers.input}.table` || (path === `inputs.${answers.input}` && name === undefined),
    read: (reply, draft) => readTable(reply, draft, name),
  };
}

function listTables(draft: Draft): string {
  const { source } = draft;
  if (source === null && getsSample(draft)) {
    return "\nAgainst the sandbox, the first run creates a missing table with sample rows.\n";
  }
  if (source === null) return "";
  const people = peopleOf(draft);
  const total = `${source.name}: ${count(source.tables.length)} ${source.tables.length === 1 ? "table" : "tables and views"}`;
  if (people.length === 0) return `\n${total}, none looks like people.\n`;
  const names = people.map(tableText);
  const width = Math.max(...names.map((text) => text.length));
  const rows = people.map(({ rows: estimate }) => (estimate === null ? "" : `~${count(estimate)} rows`));
  const rowsWidth = Math.max(...rows.map((text) => text.length));
  const lines = people.map((table, i) =>
    [`  ${i + 1}  ${(names[i] ?? "").padEnd(width)}`, (rows[i] ?? "").padStart(rowsWidth), summarize(table)]
      .filter((part) => part !== "")
      .join("  "),
  );
  return `\n${total}. These look like people:\n${lines.join("\n")}\n`;
}

function readTable(reply: string, draft: Draft, name: string | undefined): Reading {
  const { source } = draft;
  if (reply === "") return { refused: NO_TABLE };
  const found = source === null ? null : findTable(reply, draft);
  const isSample = found === null && getsSample(draft);
  const same = source === null || found ? [] : tablesNamed(reply, source).map(tableText);
  const meant = found || source === null ? null : suggest(reply, source.tables.map(tableText));
  const table = found === null ? reply : tableText(found);
  const unread = isSample ? SAMPLE : { key: ["id"], fields: {} };
  const proposed =
    found === null ? unread : { key: proposeKey(found)?.value ?? [], fields: proposeFields(found).fields };
  const next = withAnswers(draft, { table, input: name ?? inputNameOf(table), ...proposed });
  if (same.length > 1) return { refused: `Several tables are named ${reply}: write ${same.join(" or ")}.` };
  if (found === null && draft.answers.connection === null && isFileName(reply)) {
    const hint = `name a table, such as crm.customers, then add the file with \`person-etl init --add-input ${reply}\``;
    return { refused: `${reply} is a file, not a table or view.\n  → ${hint}` };
  }
  if (source === null || found !== null || (isSample && meant === null)) return { draft: next };
  const hint = meant === null ? "" : `\n  → did you mean ${meant}?`;
  return {
    refused: `${source.name} has no table ${reply} that this role can read.${hint}`,
    ...(isSample ? { otherwise: { draft: next, text: CREATE, needsConfirmation: true } } : {}),
  };
}

export const normalizeQuestion: Question = {
  text: async (draft) => {
    const profile = await profileDraft(draft);
    const isKnown = profile !== null && profile.effect.leftOut + profile.effect.changed > 0;
    const effect = isKnown ? `\n\`normalize: true\` ${effectText(profile.effect)}.\n` : "";
    return `${effect}Trim values, lowercase emails, drop placeholders`;
  },
  proposal: () => "yes",
  given: ({ normalize }) => (normalize === undefined ? undefined : normalize ? "yes" : "no"),
  owns: ({ path }, { answers }) => path === `inputs.${answers.input}.normalize`,
  read: (reply, draft) =>
    /^(?:y(?:es)?|no?)$/iu.test(reply)
      ? { draft: withAnswers(draft, { normalize: /^y/iu.test(reply) }) }
      : { refused: "Type yes or no." },
};

const CREATE = "Enter: let the first run create it, with sample rows";

const NO_TABLE = "Type the name of the table, such as crm.customers.";

function flagsText(draft: Draft): string {
  const people = peopleOf(draft).map(tableText);
  if (people.length > 0)
    return `Without a terminal, init requires --table. These look like people: ${people.join(", ")}.`;
  return (
    "Without a terminal, init requires --table and, if the database can't be read, --key and --field, such as " +
    "--table crm.customers --key id --field first_name=first_name --field last_name=last_name --field emails=email."
  );
}

/** Finds a table by its number in the list, its full name, or its name if that is unique. */
function findTable(reply: string, draft: Draft): Table | null {
  const { source } = draft;
  if (source === null) return null;
  const byNumber = /^\d+$/u.test(reply) ? peopleOf(draft)[Number(reply) - 1] : undefined;
  const byName = tablesNamed(reply, source);
  return tableOf(source, reply) ?? byNumber ?? (byName.length === 1 ? (byName[0] ?? null) : null);
}

/** Tables with a name, and with its schema if it has one. */
function tablesNamed(text: string, { tables }: OpenedSource): readonly Table[] {
  const parsed = parseTableName(text);
  return tables.filter(
    ({ schema, name }) =>
      (parsed?.table ?? text) === name &&
      (parsed?.schema === undefined || parsed.schema === null || parsed.schema === schema),
  );
}

/** `crm."Kunden Stamm"` → `kunden_stamm`, `data/leads-*.csv` → `leads`. */
export function inputNameOf(table: string): string {
  const [file] = isFileName(table) ? basename(table).split(".") : [];
  const last = file ?? parseTableName(table)?.table ?? table.split(".").at(-1) ?? "";
  const name = wordsOf(last)
    .join("_")
    .replaceAll(/[^a-z0-9_]/gu, "")
    .replace(/^[_0-9]+/u, "")
    .slice(0, 40);
  return name === "" ? "input" : name;
}

function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

export const keyColumnsQuestion: Question = {
  text: (draft) => {
    const table = chosenTable(draft);
    const proposed = table && proposeKey(table);
    const isProposed = proposed && proposed.value.join() === draft.answers.key.join();
    return `Key column(s)${isProposed ? `, ${proposed.reason}` : ", unique together"}`;
  },
  proposal: ({ answers }) => answers.key.join(", "),
  given: (flags) => flags.key,
  owns: ({ path }, { answers }) => path.startsWith(`inputs.${answers.input}.key`),
  async read(reply, before) {
    const key = listOf(reply);
    if (key.length === 0) {
      return {
        refused: "Every row needs a key: one or more columns that are unique together. The flag is --key.",
      };
    }
    const draft = withAnswers(before, { key });
    const table = chosenTable(draft);
    const isIndexed = containsUniqueKey(key, table?.uniqueKeys ?? []);
    const keys = isIndexed ? null : (await profileDraft(draft))?.keys;
    if (!keys || keys.duplicates === 0) return { draft };
    return {
      refused: `${count(keys.duplicates)} of ${countText(keys.rows, "row")} repeat the key of another row and would be rejected.`,
      otherwise: { draft, text: "Enter: keep it" },
    };
  },
};

/** Reads `emails=email, work_email`; null if it isn't a field with columns. */
function readMapping(text: string): readonly [field: string, columns: readonly string[]] | null {
  const at = text.indexOf("=");
  return at < 1 ? null : [text.slice(0, at).trim(), listOf(text.slice(at + 1))];
}

/** Mapping of all `--field` flags; unknown fields are reported when the file is validated. */
function mappingOf(flags: readonly string[]): Fields {
  const entries = flags.map((flag) => {
    const mapping = readMapping(flag);
    if (mapping?.[1].length) return mapping;
    throw new UsageError(
      `--field ${flag}: write the field and its column(s), such as emails=email,work_email.`,
    );
  });
  return Object.fromEntries(entries);
}

export const fieldsQuestion: Question = {
  text: (draft) => `${showFields(draft)}Change a field, such as phones=tel,mobile or city= to remove it`,
  proposal: ({ answers }) => (Object.keys(answers.fields).length === 0 ? "" : ACCEPT),
  notes: (draft) => {
    const skipped = skippedColumns(draft).map(([reason, columns]) => `${columns} (${reason})`);
    return skipped.length === 0 ? [] : [`${NOT_MAPPED} ${skipped.join("; ")}.`];
  },
  given: ({ field }) => (field === undefined ? undefined : JSON.stringify(mappingOf(field))),
  owns: ({ path }, { answers }) =>
    path.startsWith(`inputs.${answers.input}.fields`) || path === `inputs.${answers.input}`,
  read: (reply, draft) => {
    const { fields } = draft.answers;
    if (reply === ACCEPT) return { draft };
    // Flags state the whole mapping.
    if (reply.startsWith("{")) return { draft: withAnswers(draft, { fields: JSON.parse(reply) as Fields }) };
    const mapping = readMapping(reply);
    if (mapping === null) {
      const isEmpty = Object.keys(fields).length === 0;
      return { refused: isEmpty ? NO_FIELDS : "Write a field and its column(s): emails=email,work_email." };
    }
    const [field, columns] = mapping;
    const known: readonly string[] = [...scalarFields, ...listFields];
    if (!known.includes(field)) {
      const meant = suggest(field, known);
      return {
        refused: `${field} is not a field: ${meant === null ? known.join(", ") : `did you mean ${meant}?`}`,
      };
    }
    const { [field]: _before, ...others } = fields as Record<string, readonly string[]>; // by name
    const next = columns.length === 0 ? others : { ...fields, [field]: columns };
    return { draft: withAnswers(draft, { fields: next }), isOpen: true };
  },
};

/** Proposal that keeps the mapping as shown. */
const ACCEPT = "Enter: done";

const NO_FIELDS =
  "No column was recognized: map at least one, such as emails=email,work_email. The flag is --field.";

function showFields(draft: Draft): string {
  const entries = Object.entries(draft.answers.fields);
  const width = Math.max(0, ...entries.map(([field]) => field.length));
  const lines = entries.map(([field, columns]) => `  ${field.padEnd(width)}  ${columns.join(", ")}`);
  const reasons = skippedColumns(draft).map(([reason, columns]) => `  ${columns}: ${reason}`);
  return [
    "",
    ...(lines.length === 0 ? [] : ["Fields of the service and their columns:", ...lines]),
    ...(reasons.length === 0 ? [] : [NOT_MAPPED, ...reasons]),
    "",
  ].join("\n");
}

const NOT_MAPPED = "Not mapped; a view can convert or rename columns:";

/** All columns that are neither mapped nor the key, by the reason. */
function skippedColumns(draft: Draft): readonly (readonly [reason: string, columns: string])[] {
  const table = chosenTable(draft);
  const { fields, key } = draft.answers;
  const used = new Set([...Object.values(fields).flat(), ...key]);
  const skipped = (table ? proposeFields(table).skipped : []).filter(({ column }) => !used.has(column));
  return [...Map.groupBy(skipped, ({ reason }) => reason)].map(([reason, columns]) => [
    reason,
    columns.map(({ column }) => column).join(", "),
  ]);
}
