import { readFileSync } from "node:fs";
import { z } from "zod";
import { type Expectation, expectationOf, NAME } from "../src/config/schema/settings.ts";
import { documentSchemaOf } from "../src/config/schema/document.ts";
import { jobTypes } from "../src/jobs/registry.ts";

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Matches texts with a `${NAME}`, whose value only the program can see. */
const REFERENCE = String.raw`\$\{`;
const NOT_BLANK = String.raw`\S`;

/** JSON Schema of the configuration, for editors. Rules that involve several settings are left to `check`. */
export function configSchema(): object {
  const schema = z.toJSONSchema(documentSchemaOf(jobTypes), {
    io: "input",
    // Editors support this draft best.
    target: "draft-7",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      const expectation = expectationOf(zodSchema);
      if (expectation && jsonSchema.type !== "boolean") {
        jsonSchema.description = `Must be ${expectation.expects}.`;
      }
      if (zodSchema instanceof z.ZodString || zodSchema instanceof z.ZodEnum) {
        describeText(jsonSchema, expectation);
      }
      if (zodSchema instanceof z.ZodRecord) jsonSchema.propertyNames = { pattern: NAME.source };
    },
  });
  describeSettings(schema, [], documentedSettings());
  return { ...schema, title: "Configuration of person-etl" };
}

/** Adds the form of a text to its schema: blank is refused, a reference allowed except in SQL. */
function describeText(schema: JsonSchema, expectation: Expectation | undefined): void {
  const pattern = schema.pattern ?? expectation?.pattern;
  if (expectation?.isSecret) {
    schema.pattern = pattern ?? NOT_BLANK;
  } else if (expectation?.isSql) {
    schema.pattern = NOT_BLANK;
    schema.not = { pattern: String.raw`(?<!\$)${REFERENCE}` };
  } else if (schema.enum) {
    schema.anyOf = [{ enum: schema.enum }, { pattern: REFERENCE }];
    delete schema.enum;
  } else {
    schema.pattern = pattern === undefined ? NOT_BLANK : `${pattern}|${REFERENCE}`;
  }
}

/** Name of a setting in docs/configuration.md, which describes some together: `budgets.TYPE`, `inputs.NAME.fields.FIELD`. */
export function nameInPage(path: string): string {
  return path
    .replace(/^budgets\.\w+/u, "budgets.TYPE")
    .replace(/^prices\.(?!currency)\w+/u, "prices.TYPE")
    .replace(/\.fields\.\w+/u, ".fields.FIELD");
}

/** Description and default of each setting in docs/configuration.md, by its name there. */
function documentedSettings(): ReadonlyMap<string, string> {
  const page = readFileSync(new URL("../docs/configuration.md", import.meta.url), "utf8");
  const rows = page.matchAll(/^\| \**`([^`]+)`\** \|[^|]*\| *([^|]*?) *\| *([^|]*?) *\|$/gmu);
  return new Map(
    [...rows].map(([, path = "", preset = "", meaning = ""]) => {
      const sentences = [meaning, preset === "" ? "" : `Default: ${preset.replaceAll("`", "")}.`];
      const text = sentences.filter((sentence) => sentence !== "").join(" ");
      return [
        path,
        text.replaceAll(/ ?\(\[[^\]]*\]\([^)]*\)\)/gu, "").replaceAll(/\[([^\]]*)\]\([^)]*\)/gu, "$1"),
      ];
    }),
  );
}

/** Puts the documentation of each setting before the form of its value. */
function describeSettings(
  schema: JsonSchema,
  path: readonly string[],
  documented: ReadonlyMap<string, string>,
): void {
  for (const [key, child] of Object.entries(schema.properties ?? {})) {
    if (typeof child !== "object") continue;
    const childPath = [...path, key];
    const meaning = documented.get(nameInPage(childPath.join(".")));
    if (meaning) child.description = [meaning, child.description].join(" ").trim();
    describeSettings(child, childPath, documented);
  }
  const { additionalProperties: named, items, anyOf = [], oneOf = [] } = schema;
  if (typeof named === "object") describeSettings(named, [...path, "NAME"], documented);
  if (typeof items === "object" && !Array.isArray(items)) describeSettings(items, path, documented);
  for (const option of [...anyOf, ...oneOf]) describeSettings(option, path, documented);
}
