import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { makeFolder, runCli } from "../cli/support/cli.ts";

const config = `
service: { base_url: sandbox }
warehouse: { url: embedded }
inputs: { customers: { table: customers, key: id, fields: { emails: email } } }
jobs:
  validate_customers: { type: validate_emails, input: customers }
  validate_vips: { type: validate_emails, input: customers }
`;

/** Prints the completions of a typed line in each shell, one a line. */
const shells: Readonly<Record<string, (line: string) => string>> = {
  bash: (line) => `
    source ./script
    COMP_WORDS=(${line.replace(/ $/u, ' ""')}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
    complete -p person-etl >&2; _person_etl; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // Calls the function as zsh does: in the shell options of bashcompinit, which filters what the function returns.
  zsh: (line) => `
    autoload -U compinit && compinit -u -D
    source ./script
    emulate sh -o kshglob -o noshglob -o braceexpand
    COMP_WORDS=(${line.replace(/ $/u, ' ""')}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
    _person_etl; printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: (line) => `source ./script; complete -C '${line}'`,
};

test.for(Object.keys(shells))("%s completes commands, options, choices and job names", async (shell) => {
  const cwd = await makeFolder({
    "config.yaml": config,
    "other.yaml": config.replace("validate_customers", "other_customers"),
  });
  const { stdout } = await runCli(["completion", shell], { cwd });
  await writeFile(join(cwd, "script"), stdout);
  const PATH = `${join(inject("program"), "..")}:${process.env["PATH"]}`;
  const complete = async (line: string) => {
    const run = promisify(execFile)(shell, ["-c", shells[shell]?.(line) ?? ""], {
      cwd,
      env: { ...process.env, PATH, HOME: cwd },
    });
    return (await run).stdout
      .trimEnd()
      .split("\n")
      .map((word) => word.split("\t")[0]);
  };
  expect(await complete("person-etl rej")).toContain("rejects");
  expect(await complete("person-etl rejects ")).toEqual(expect.arrayContaining(["drop", "list", "retry"]));
  expect(await complete("person-etl run --max")).toContain("--max-records");
  const run = await complete("person-etl --config config.yaml run validate_");
  expect(run).toEqual(expect.arrayContaining(["validate_customers", "validate_vips"]));
  // bash has = as a word of its own.
  const equals = shell === "bash" ? " = " : "=";
  for (const file of [`--config${equals}./other.yaml`, "--config ~/other.yaml"]) {
    const typed = shell === "fish" ? file : file.replace("~", "'~'");
    const jobs = await complete(`person-etl ${typed} run other_`);
    expect({ file, jobs }).toEqual({ file, jobs: expect.arrayContaining(["other_customers"]) });
  }
  expect(await complete("person-etl --log-level s")).toContain("silent");
  expect(await complete("person-etl status ")).not.toContain("validate_vips");
});
