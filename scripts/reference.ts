import { adviceByCode } from "../src/advice.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "../src/config/schema/warehouse.ts";
import { tables } from "../src/schemas/registry.ts";
import { views } from "../src/schemas/views.ts";

/** Pages of docs/reference that are made from the program itself, by file name. */
export function referencePages(): Readonly<Record<string, string>> {
  return {
    "docs/reference/tables.md": tablesPage(),
    "docs/reference/error-codes.md": codesPage(),
  };
}

const MADE = "<!-- Made by `npm run docs` from the program itself; changes belong there. -->";

/** Default names of the schemas. */
const schemaNames = { data: DEFAULT_SCHEMA, ops: DEFAULT_OPS_SCHEMA, state: DEFAULT_STATE_SCHEMA };

/** Lists the tables and views that people and BI tools read. */
function tablesPage(): string {
  const sections = [...tables.filter(({ schema }) => schema !== "state"), ...views].map((table) => {
    const rows = table.columns.map((column) => {
      const isKey = "key" in table && table.key.includes(column.name);
      const name = isKey ? `**\`${column.name}\`**` : `\`${column.name}\``;
      return `| ${name} | ${column.type} | ${column.pii} | ${cell(column.doc)} |`;
    });
    return [
      `## ${table.name}`,
      `${table.doc} In schema \`${schemaNames[table.schema]}\`.`,
      ["| column | type | personal | meaning |", "| --- | --- | --- | --- |", ...rows].join("\n"),
    ].join("\n\n");
  });
  return [
    "# Every table",
    MADE,
    "**Bold**: the key. *personal*: `none`, `indirect` (identifies somebody together with others), `direct` (names somebody) or `sensitive`. " +
      "Schema names are the defaults. Tables of the state schema are the program's own.",
    ...sections,
    "",
  ].join("\n\n");
}

/** Every code that ends a command, a job or a call. */
function codesPage(): string {
  const rows = Object.entries(adviceByCode)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { means, next }]) => `| \`${code}\` | ${cell(means)} | ${cell(next)} |`);
  return [
    "# Every error code",
    MADE,
    "Codes appear in `error.code` of `--json`, in the log (`code`), in alerts (`state`) and in `limited_by`. See [troubleshooting](../troubleshooting.md).",
    ["| code | means | what to do |", "| --- | --- | --- |", ...rows].join("\n"),
    "",
  ].join("\n\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
