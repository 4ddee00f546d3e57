import type { Problems } from "../problems.ts";
import { entriesOf, type Links } from "./links.ts";
import { unknownName } from "./names.ts";

/** What one input must have beyond the form of each of its settings. */
export function checkInputs(links: Links, problems: Problems): void {
  const connections = Object.keys(links.connections);
  for (const [name, input] of entriesOf(links.inputs)) {
    const path = ["inputs", name];
    if (input.table === undefined && input.sql === undefined) {
      problems.add([...path, "table"], {
        message: "is missing",
        hint: "give the input a table (schema.table) or sql: SELECT …",
      });
    }
    if (input.table !== undefined && input.sql !== undefined) {
      problems.add([...path, "sql"], { message: "stands beside table", hint: "keep one of the two" });
    }
    if (input.connection !== undefined && !connections.includes(input.connection)) {
      problems.add([...path, "connection"], unknownName("connection", input.connection, connections));
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
        hint: "record_id is made by the program from the key; remove this line",
      });
    }
  }
}
