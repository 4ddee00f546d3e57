import type { Problems } from "../problems.ts";
import { entriesOf, type WrittenFile } from "../written-file.ts";

/** Checks rules that involve several settings of an input. */
export function checkInputs({ inputs }: WrittenFile, problems: Problems): void {
  for (const [name, input] of entriesOf(inputs)) {
    const path = ["inputs", name];
    if (input.table === undefined && input.sql === undefined) {
      problems.add([...path, "table"], {
        message: "is missing",
        hint: "add a table (schema.table) or sql: SELECT …",
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
