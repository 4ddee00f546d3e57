import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { readFileSync } from "node:fs";
import { createProgram, pathOf } from "../../../src/cli/command-tree.ts";

/** Requires a document of `--json` to be as docs/reference/commands.schema.json describes it, without any other key. */
export async function expectDescribed(args: readonly string[], document: object): Promise<void> {
  let command = "Failed";
  const program = createProgram(async (parsed) => {
    command = pathOf(parsed).join("_");
  });
  // A wrong command line prints a failure.
  await program.parseAsync([...args], { from: "user" }).catch(() => {});
  if (args.includes("--help") || args.includes("--version")) return;
  const validate = validatorOf(command);
  if (validate(document)) return;
  const problems = JSON.stringify(validate.errors, null, 1);
  throw new Error(
    `${args.join(" ")} prints a document that commands.schema.json doesn't describe: ${problems}`,
  );
}

let ajv: Ajv2020 | null = null;

function validatorOf(command: string): ValidateFunction {
  ajv ??= openSchema();
  const validate = ajv.getSchema(`documents#/$defs/${command}`);
  if (!validate) throw new Error(`commands.schema.json has no definition of ${command}`);
  return validate;
}

function openSchema(): Ajv2020 {
  const text = readFileSync(new URL("../../../docs/reference/commands.schema.json", import.meta.url), "utf8");
  const schema = JSON.parse(text, closed) as { readonly $defs: Record<string, object> }; // as the file is written
  // Failures of some commands have the keys of their results, too.
  const failed = { ...schema.$defs["Failed"], additionalProperties: true };
  const opened = new Ajv2020({ strict: true, allowUnionTypes: true });
  return opened.addSchema({ ...schema, $id: "documents", $defs: { ...schema.$defs, Failed: failed } });
}

/** Refuses other keys in every object whose keys are described. */
function closed(_key: string, value: unknown): unknown {
  const isObject = typeof value === "object" && value !== null && "properties" in value && "type" in value;
  return isObject && !("additionalProperties" in value) ? { ...value, additionalProperties: false } : value;
}
