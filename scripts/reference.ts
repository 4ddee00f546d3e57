import { z } from "zod";
import { adviceByCode } from "../src/jobs/report/advice.ts";
import { documentSchemaOf, laterJobTypes } from "../src/config/schema/document.ts";
import { jobTypes } from "../src/jobs/registry.ts";
import { expectationOf } from "../src/config/schema/described.ts";
import {
  discriminatorOf,
  keyPaths,
  optionsOf,
  type Schema,
  schemaAt,
  unwrap,
} from "../src/config/schema/walk.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "../src/config/schema/warehouse.ts";
import { tables } from "../src/schemas/registry.ts";
import { views } from "../src/schemas/views.ts";

/** Pages of docs/reference that are made from the program itself, by file name. */
export function referencePages(): Readonly<Record<string, string>> {
  return {
    "docs/reference/settings.md": settingsPage(),
    "docs/reference/tables.md": tablesPage(),
    "docs/reference/error-codes.md": codesPage(),
  };
}

const documentSchema = documentSchemaOf(jobTypes);

const MADE = "<!-- Made by `npm run docs` from the program itself; changes belong there. -->";

interface Setting {
  readonly path: string;
  readonly value: string;
  readonly default: string;
  /** Types that have it; empty where the setting is no matter of a type. */
  readonly types: ReadonlySet<string>;
}

/** Every setting of the configuration, with what it must be. */
function settingsPage(): string {
  const settings = new Map<string, Setting>();
  const note = (path: readonly string[], schema: Schema, type: string | null) => {
    const key = path.map((step) => (step.startsWith("/") ? "PATH" : step)).join(".");
    const known = settings.get(key);
    const types = new Set([...(known?.types ?? []), ...(type === null ? [] : [type])]);
    const values = new Set([...(known ? [known.value] : []), valueOf(schema)]);
    settings.set(key, { path: key, value: [...values].join(", "), default: defaultOf(schema), types });
  };
  for (const { path, schema } of keyPaths(documentSchema)) {
    if (!isOfJob(path)) note(path, schema, null);
  }
  const job = schemaAt(documentSchema, ["jobs", "NAME"], {});
  const options = job ? optionsOf(job) : [];
  for (const option of options) {
    const type = String(discriminatorOf(option, "type"));
    if (laterJobTypes.includes(type)) continue;
    for (const { path, schema } of keyPaths(option, ["jobs", "NAME"])) note(path, schema, type);
  }
  const rows = [...settings.values()].map(({ path, value, default: given, types }) => {
    const of =
      types.size === 0 || types.size === jobTypes.length
        ? ""
        : [...types].map((type) => `\`${type}\``).join(", ");
    return `| \`${path}\` | ${cell(value)} | ${given === "" ? "" : `\`${cell(given)}\``} | ${of} |`;
  });
  return [
    "# Every setting",
    MADE,
    "What each setting of the configuration must be; [configuration](../configuration.md) says what it is for. `NAME` stands for a " +
      "name of your own, `PATH` for the path of an endpoint. A setting of some types only names them.",
    ["| setting | value | default | types |", "| --- | --- | --- | --- |", ...rows].join("\n"),
    "",
  ].join("\n\n");
}

function isOfJob(path: readonly string[]): boolean {
  return path[0] === "jobs" && path.length > 1;
}

function valueOf(schema: Schema): string {
  const inner = unwrap(schema);
  const told = expectationOf(inner);
  if (told) return told.isSecret ? `${told.expects} (secret)` : told.expects;
  if (inner instanceof z.ZodLiteral)
    return inner.def.values.map((value) => `\`${String(value)}\``).join(", ");
  if (inner instanceof z.ZodRecord) return "a mapping by name";
  return "a mapping";
}

/** As YAML shows it; empty for none. */
function defaultOf(schema: Schema): string {
  if (schema instanceof z.ZodOptional) return defaultOf(schema.def.innerType);
  if (!(schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault)) return "";
  const value: unknown = schema.def.defaultValue;
  if (typeof value === "string") return value;
  const text = JSON.stringify(value);
  return text === "{}" ? "" : text;
}

/** Default names of the schemas. */
const schemaNames = { data: DEFAULT_SCHEMA, ops: DEFAULT_OPS_SCHEMA, state: DEFAULT_STATE_SCHEMA };

/** Every table and view, with every column. */
function tablesPage(): string {
  const sections = [...tables, ...views].map((table) => {
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
    "**Bold**: the key. *personal* says how personal a column is: `none`, `indirect` (can single somebody out together with others), " +
      "`direct` (names somebody) or `sensitive` (may harm). Schemas are named as by default.",
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
    "The codes stand in `error.code` of `--json`, in the log (`code`), in alerts (`state`) and in `limited_by`; they don't change. " +
      "[Troubleshooting](../troubleshooting.md) says where to look.",
    ["| code | means | what to do |", "| --- | --- | --- |", ...rows].join("\n"),
    "",
  ].join("\n\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}
