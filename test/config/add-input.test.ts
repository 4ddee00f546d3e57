import { describe, expect, it } from "vitest";
import { addInputToText } from "../../src/config/template.ts";
import { fine, load } from "./support.ts";

const contacts = {
  input: "contacts",
  connection: null,
  table: "crm.contacts",
  key: ["id"],
  fields: { emails: ["email"] },
  normalize: false,
  rows: null,
};
const added = (text: string) => addInputToText(text, contacts);

describe("adding an input to a file", () => {
  it("puts it at the end of its section, before the comment of the next one", async () => {
    const text = added(fine.replace("jobs:", "\n# All jobs.\njobs:")) ?? "";
    const config = await load(text);
    expect(Object.keys(config.inputs)).toEqual(["customers", "contacts"]);
    expect(config.jobs.map(({ name }) => name)).toEqual([
      "resolve_customers",
      "validate_customers",
      "enrich_customers",
      "validate_contacts",
      "enrich_contacts",
    ]);
    expect(text).toMatch(/ {6}emails: email\n\n# All jobs\.\njobs:\n {2}resolve_customers/u);
  });

  it("keeps the indentation, line ends and everything after the section", async () => {
    const wide = `jobs:
      validate_customers: {type: validate_emails, input: customers}
inputs:
        customers:
            sql: |
                select id, email
                from t   # not a comment

            key: id
            fields: { emails: email }

# The end.
service: { base_url: sandbox }
warehouse: { url: embedded }
`.replaceAll("\n", "\r\n");
    const text = added(wide) ?? "";
    expect(text.replaceAll("\r\n", "")).not.toContain("\n");
    expect(text).toContain("\r\n        contacts:\r\n                table: crm.contacts\r\n");
    expect(text).toContain(
      "\r\n      validate_contacts:   # validates the e-mail addresses\r\n            type: validate_emails\r\n",
    );
    expect(
      text.endsWith(
        "\r\n\r\n# The end.\r\nservice: { base_url: sandbox }\r\nwarehouse: { url: embedded }\r\n",
      ),
    ).toBe(true);
    expect((await load(text)).inputs["customers"]?.source).toEqual({
      kind: "sql",
      sql: "select id, email\nfrom t   # not a comment\n",
    });
  });

  it("adds missing sections, also to a file without a final line end", async () => {
    const text = added("service: { base_url: sandbox }\nwarehouse: { url: embedded }") ?? "";
    expect(Object.keys((await load(text)).inputs)).toEqual(["contacts"]);
  });

  it("refuses sections in braces, and the name of an existing input", () => {
    expect(added("inputs: { a: { table: t } }\njobs: {}\n")).toBeNull();
    expect(addInputToText(fine, { ...contacts, input: "customers" })).toBeNull();
  });
});
