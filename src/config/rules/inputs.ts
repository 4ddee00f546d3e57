import type { Path, Problems } from "../problems.ts";
import { entriesOf, type WrittenFile } from "../written-file.ts";

/** Settings that only the members of an audience have by default. */
const REQUIRED = {
  key: "the name of a column, or a list of at least one",
  fields: "a mapping of keys to values",
};

/** Checks an input that is the members of an audience. */
function checkMembers(
  input: NonNullable<WrittenFile["inputs"][string]>,
  path: Path,
  problems: Problems,
): void {
  if (input.job === undefined) {
    problems.add([...path, "job"], {
      message: "is missing",
      hint: "name the audience_search job of the search",
    });
  }
  for (const setting of ["table", "sql", "connection", "key", "fields"] as const) {
    if (input[setting] === undefined) continue;
    problems.add([...path, setting], {
      message: "conflicts with job",
      hint: "the members of an audience are read by their PID; remove the line",
    });
  }
}

/** Checks rules that involve several settings of an input. */
export function checkInputs({ inputs }: WrittenFile, problems: Problems): void {
  for (const [name, input] of entriesOf(inputs)) {
    const path = ["inputs", name];
    if (input.job !== undefined || input.search !== undefined) {
      checkMembers(input, path, problems);
      continue;
    }
    for (const [setting, expects] of Object.entries(REQUIRED)) {
      if (input[setting as keyof typeof REQUIRED] !== undefined) continue; // its own keys
      problems.add([...path, setting], { message: "is missing", hint: `it must be ${expects}` });
    }
    if (input.table === undefined && input.sql === undefined) {
      problems.add([...path, "table"], {
        message: "is missing",
        hint: "add a table (schema.table), sql: SELECT …, or the job and search of an audience",
      });
    }
    if (input.table !== undefined && input.sql !== undefined) {
      problems.add([...path, "sql"], { message: "conflicts with table", hint: "keep only one" });
    }
    if (input.fields !== undefined && Object.keys(input.fields).length === 0) {
      problems.add([...path, "fields"], {
        message: "maps no column",
        hint: "for example { first_name: first_name, last_name: last_name, emails: [email] }",
      });
    }
    if (input.fields && Object.hasOwn(input.fields, "record_id")) {
      problems.add([...path, "fields", "record_id"], {
        message: "can't be mapped",
        hint: "record_id is generated from the key; remove this line",
      });
    }
  }
}

/** Warns of a column mapped to two fields of an input. */
export function warnOfSharedColumns({ inputs }: WrittenFile, warnings: Problems): void {
  for (const [name, { fields = {} }] of entriesOf(inputs)) {
    const mappedBy = new Map<string, string>();
    for (const [field, columns] of Object.entries(fields)) {
      for (const column of [columns].flat().filter((one) => typeof one === "string")) {
        const other = mappedBy.get(column) ?? field;
        if (other !== field) {
          warnings.add(["inputs", name, "fields", field], {
            message: `has the same column as ${other}`,
            hint: "map each column to one field",
          });
        }
        mappedBy.set(column, other);
      }
    }
  }
}
