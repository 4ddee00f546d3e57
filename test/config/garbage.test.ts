import { jobTypes } from "../../src/jobs/registry.ts";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { stringify } from "yaml";
import { loadConfig } from "../../src/config/load-config.ts";
import { documentSchemaOf } from "../../src/config/schema/document.ts";
import { keyPaths } from "../../src/config/schema/settings.ts";
import { FixConfigurationError, type Problem } from "../../src/errors.ts";
import { fine, makeFolder } from "./support.ts";
import * as fc from "../support/fast-check.ts";

const documentSchema = documentSchemaOf(jobTypes);

/** Secrets that must never be printed: in the file, and in the environment. */
const SECRETS = ["sk-Live-93f1c07", "hun ter2#4471'x", "pässwörd-550018"];
const env = {
  SECRET_A: SECRETS[0],
  SECRET_B: SECRETS[1],
  SECRET_C: `postgres://u:${SECRETS[2]}@h/db`,
  EMPTY: "",
};

const value = fc.oneof(
  fc.constantFrom(...SECRETS),
  fc.constantFrom("${SECRET_A}", "${SECRET_B}", "x${SECRET_C}y", "${EMPTY}", "${MISSING}", "${", "$${x}"),
  fc.constantFrom(
    `file:${SECRETS[0]}`,
    `postgres://u:${SECRETS[0]}@h/db`,
    `https://${SECRETS[0]}@h/?k=${SECRETS[0]}`,
  ),
  fc.constantFrom("resolve", "enrich", "customers", "constructor", "30d", "postgres", "embedded", "sandbox"),
  fc.string(),
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
);
const places = keyPaths(documentSchema).map(({ path }) => path);
const key = fc.oneof(
  fc.constantFrom(...new Set(places.flat())),
  fc.constantFrom(...SECRETS, "constructor", "__proto__", "toString", "", "<<"),
);
const anything = fc.letrec((tie) => ({
  node: fc.oneof(
    { depthSize: "small" },
    value,
    fc.array(tie("node"), { maxLength: 3 }),
    fc.dictionary(key, tie("node"), { maxKeys: 4 }),
  ),
})).node;
/** Problem of this text's handling: a crash, an incomplete problem, a printed secret; or null. */
async function offenceOf(file: string, text: string): Promise<string | null> {
  await writeFile(file, text);
  try {
    const { warnings } = await loadConfig({ jobTypes, file, env });
    return findSecret(warnings);
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) return `crashed: ${String(error)}`;
    const { problems } = error;
    const lines = text.split("\n").length + 1;
    const isWhole = ({ path, message, hint, line = 0 }: Problem) =>
      path !== "" && message !== "" && hint !== undefined && hint !== "" && line >= 1 && line <= lines;
    if (problems.length === 0 || !problems.every(isWhole)) return `incomplete: ${JSON.stringify(problems)}`;
    return findSecret([error.message, problems, error.cause]);
  }
}

function findSecret(output: unknown): string | null {
  const text = JSON.stringify(output);
  return SECRETS.some((secret) => text.includes(secret)) ? `tells a secret: ${text}` : null;
}

const names: Record<string, string> = { inputs: "customers", jobs: "enrich_customers", connections: "crm" };
const placed = fc
  .tuple(fc.constantFrom(...places), anything, fc.boolean())
  .map(([path, content, isWhole]) => {
    const place = path.map((step, i) => (step === "NAME" ? (names[path[i - 1] ?? ""] ?? "a") : step));
    const tree = place.reduceRight<unknown>((below, step) => ({ [step]: below }), content);
    const text = stringify(tree, { aliasDuplicateObjects: false });
    return isWhole ? text : `${fine}${text}`;
  });
const SYNTAX = [
  "\t",
  "\n",
  "- ",
  "? ",
  ": ",
  "'",
  '"',
  "[",
  "{",
  "&a ",
  "*a ",
  "!x ",
  "---\n",
  "%YAML 1.1\n",
];
const piece = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom(...SECRETS, "${SECRET_A}", ...SYNTAX));

it.each([
  ["any value at any place of the schema", placed],
  [
    "any tree of known and unknown keys",
    fc.dictionary(key, anything, { maxKeys: 6 }).map((tree) => stringify(tree)),
  ],
  [
    "a fine file with a piece of it replaced by anything",
    fc
      .tuple(fc.nat(fine.length), fc.nat(40), piece)
      .map(([start, length, text]) => fine.slice(0, start) + text + fine.slice(start + length)),
  ],
])("%s is accepted, or refused with whole problems; no secret is printed", async (_what, texts) => {
  const file = join(await makeFolder(), "config.yaml");
  const property = fc.asyncProperty(texts, async (text) => {
    expect(await offenceOf(file, text)).toBeNull();
  });
  await fc.assert(property, { numRuns: 50 });
});
