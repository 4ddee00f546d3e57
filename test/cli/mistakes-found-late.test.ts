import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { runHere } from "./support/in-process.ts";
import { makeSetting } from "./support/setting.ts";

const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";

/** A mistake that only `check` with the databases finds. */
interface LateMistake {
  readonly mistake: string;
  /** Text of the file to replace, then its replacement; in several pairs. */
  readonly replace?: readonly (readonly [string, string])[];
  readonly files?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly code?: number;
  readonly printed: readonly string[];
}

const WITH_FILES = ["inputs:\n", "connections: { files: { type: duckdb } }\ninputs:\n"] as const;
const fileInput = (file: string) => [
  WITH_FILES,
  ["table: crm.customers", `table: ${file}\n    connection: files`] as const,
  ["[email, work_email], phones: [phone], city: city", "email"] as const,
];
const publishing = (destination: string) => [
  ["inputs:\n", `publish: { copy: ${destination} }\ninputs:\n`] as const,
];
const HEADER = "id,first_name,last_name,email\n";

const LATE: readonly LateMistake[] = [
  {
    mistake: "a column that the table doesn't have",
    replace: [["phones: [phone]", "phones: [phonee]"]],
    printed: [
      "inputs.customers.fields.phones (line 11): crm.customers has no column phonee.",
      "→ Did you mean phone? Its columns are:",
    ],
  },
  {
    mistake: "a condition with ==",
    replace: [["    key: id", "    where: city == 'Austin'\n    key: id"]],
    printed: [
      "inputs.customers.where (line 10): Can't select from crm.customers: operator does not exist: text == unknown.",
      "→ In SQL, = compares, not ==.",
    ],
  },
  {
    mistake: "an order by a column that doesn't exist",
    replace: [["    key: id", "    order_by: creatd\n    key: id"]],
    printed: [
      'inputs.customers.order_by (line 10): Can\'t select from crm.customers: column "creatd" does not exist.',
    ],
  },
  {
    mistake: "a file that doesn't exist",
    replace: fileInput("leads.csv"),
    printed: [
      "inputs.customers.table (line 10): no file matches leads.csv.",
      "→ Correct the path; relative ones start at",
    ],
  },
  {
    mistake: "a folder named as a file",
    replace: fileInput("leads.csv"),
    files: { "leads.csv/part-0.csv": HEADER },
    printed: [
      "inputs.customers.table (line 10): leads.csv is a folder.",
      "→ Write a pattern for its files: leads.csv/*.csv.",
    ],
  },
  {
    mistake: "a file whose column has another name",
    replace: fileInput("leads.csv"),
    files: { "leads.csv": "id,first_name,last,e_mail\n" },
    printed: [
      "leads.csv, line 1, has no column last_name, email.",
      "→ Did you mean last, e_mail? Its columns are: id, first_name, last, e_mail.",
    ],
  },
  {
    mistake: "a bucket that can't be reached",
    replace: [
      ...fileInput("s3://leads/a.csv"),
      ["{ type: duckdb }", "{ type: duckdb, s3_endpoint: 'http://127.0.0.1:2' }"],
    ],
    code: 1,
    printed: [
      "The input customers can't be read: 127.0.0.1:2 can't be reached (ECONNREFUSED). Check inputs.customers.table, its connection and the network,",
    ],
  },
  {
    mistake: "a file that isn't compressed",
    replace: fileInput("leads.csv.gz"),
    files: { "leads.csv.gz": `${HEADER}1,Ann,Lee,ann@example.com\n` },
    printed: [
      "leads.csv.gz isn't compressed as its name says.",
      "→ Compress the file, or remove the end of its name",
    ],
  },
  {
    mistake: "a DuckDB file in a folder that doesn't exist",
    replace: publishing("{ type: duckdb, path: missing/people.duckdb }"),
    printed: [
      "line 7: Destination copy can't be used: FOLDER/missing/people.duckdb can't be written (ENOENT).",
      "→ Create the folder FOLDER/missing, or correct publish.copy.path.",
    ],
  },
  {
    mistake: "two destinations with one file, spelled differently",
    replace: [
      [
        "inputs:\n",
        "publish: { a: { type: duckdb, path: a.duckdb }, b: { type: duckdb, path: ./a.duckdb } }\ninputs:\n",
      ],
    ],
    printed: ["publish.b (line 7): has the same target as a", "→ each destination needs its own target"],
  },
  {
    mistake: "a key file of BigQuery that doesn't exist",
    replace: publishing(
      "{ type: bigquery, project: my-project, location: EU, dataset: d, ops_dataset: o, credentials: 'file:key.json' }",
    ),
    printed: ["the key file FOLDER/key.json can't be read"],
  },
  {
    mistake: "a catalog that nothing listens at",
    replace: publishing("{ type: iceberg, catalog: 'http://127.0.0.1:9', warehouse: w }"),
    printed: ["Destination copy (http://127.0.0.1:9) can't be reached", "Check publish.copy.catalog"],
  },
  {
    mistake: "environments in one file",
    replace: [["inputs:\n", "profiles: { dev: {} }\ninputs:\n"]],
    printed: [
      "profiles (line 7): is not a setting",
      "→ write one file per environment, and choose it with --config",
    ],
  },
  {
    mistake: "an unknown code of rejects",
    command: ["rejects", "retry", "--code", "no_identifer"],
    printed: ["No record was rejected with the code no_identifer", "Did you mean no_identifier?"],
  },
  {
    mistake: "rejects of an unknown input",
    command: ["rejects", "list", "--source-key", "customer/1"],
    printed: ["There is no input customer. Did you mean customers?"],
  },
  {
    mistake: "the erasure of a row of an unknown input",
    command: ["erase", "--source-key", "customer/1", "--yes"],
    code: 1,
    printed: ["No one found; check the spelling.", "! There is no input customer. Did you mean customers?"],
  },
  {
    mistake: "a search without a query",
    command: ["search", " "],
    printed: ["Write a query, such as"],
  },
  {
    mistake: "the schedule of jobs without one",
    command: ["schedule"],
    printed: ["jobs.resolve_customers (line 13): has no schedule", '→ add schedule: "15 1 * * *"'],
  },
];

test.for(LATE)("$mistake", async ({ replace = [], files = {}, command = ["check"], code = 2, printed }) => {
  const { cwd, env } = await makeSetting({ rows: 5, jobs: RESOLVE });
  const file = join(cwd, "config.yaml");
  let text = await readFile(file, "utf8");
  for (const [before, after] of replace) {
    expect(text).toContain(before);
    text = text.replace(before, () => after);
  }
  await writeFile(file, text);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(cwd, name)), { recursive: true });
    await writeFile(join(cwd, name), content);
  }
  if (command[0] !== "check") await runHere(["migrate"], { cwd, env });
  const found = await runHere(command, { cwd, env });
  const output = `${found.stdout}${found.stderr}`.replaceAll(cwd, "FOLDER").replaceAll(/\s+/gu, " ");
  for (const line of printed) expect(output).toContain(line);
  expect(found.code).toBe(code);
});
