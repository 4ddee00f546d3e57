import { describe, expect, it } from "vitest";
import { fine, fineBut, load, problemsOf } from "./support.ts";

const inEnrich = (setting: string) => fineBut("pid_from: resolve_customers }", `${setting} }`);
/** Two pushes with the same name and different settings. */
const pushes = (one: string, other: string) =>
  load(`${fine}  vips: { type: segment_push, name: VIP, sql: select 1${one} }
  vips_again: { type: segment_push, name: VIP, sql: select 2${other} }
`);

describe("references between parts", () => {
  it.each([
    [
      fineBut("key: id", "key: id\n    connection: crm"),
      "10 inputs.customers.connection: is not a configured connection (there is no connection)",
    ],
    [
      fineBut("key: id", "key: id\n    sql: select 1"),
      "10 inputs.customers.sql: conflicts with table (keep only one)",
    ],
    [
      fineBut("{ first_name: first_name, last_name: last_name, emails: [email] }", "{}"),
      "10 inputs.customers.fields: maps no column (for example { first_name: first_name, last_name: last_name, emails: [email] })",
    ],
    [
      fineBut("emails: [email] }", "emails: [email], record_id: id }"),
      "10 inputs.customers.fields.record_id: can't be mapped (record_id is generated from the key; remove this line)",
    ],
    [
      inEnrich("pid_from: resolve_custmers"),
      "14 jobs.enrich_customers.pid_from: is not a configured job (did you mean resolve_customers?)",
    ],
    [
      inEnrich("pid_from: validate_customers"),
      "14 jobs.enrich_customers.pid_from: must be a job of type resolve, not validate_emails (did you mean resolve_customers?)",
    ],
    [
      inEnrich("valid_emails_from: resolve_customers"),
      "14 jobs.enrich_customers.valid_emails_from: must be a job of type validate_emails, not resolve (did you mean validate_customers?)",
    ],
    [
      inEnrich("after: [resolve_customers, nothing]"),
      "14 jobs.enrich_customers.after[1]: is not a configured job (known names: resolve_customers, validate_customers, enrich_customers)",
    ],
    [
      inEnrich("after: resolv_customers"),
      "14 jobs.enrich_customers.after: is not a configured job (did you mean resolve_customers?)",
    ],
    [
      fineBut("input: customers }\n  enrich", "input: customer }\n  enrich"),
      "13 jobs.validate_customers.input: is not a configured input (did you mean customers?)",
    ],
    [
      fineBut(", emails: [email] }", " }"),
      "13 jobs.validate_customers.input: the input maps no emails (add emails to the fields of the input)",
    ],
    [
      fineBut("last_name: last_name, ", ""),
      "12 jobs.resolve_customers.input: the input lacks fields required by resolve: a name, and emails or phones (map first_name and last_name (or full_name), and emails or phones, in the fields of the input)",
    ],
    [
      fineBut("emails: [email] }", "emails: [email], service_pid: pid }"),
      "14 jobs.enrich_customers.pid_from: conflicts with the mapped field service_pid (remove pid_from, or service_pid from the fields of the input)",
    ],
    [
      fineBut(
        "jobs:\n",
        "  others: { table: others, key: id, fields: { full_name: n, phones: p } }\njobs:\n  other: { type: resolve, input: others }\n",
      ).replace("pid_from: resolve_customers", "pid_from: other"),
      "16 jobs.enrich_customers.pid_from: is a job with a different input (did you mean resolve_customers?)",
    ],
    [
      fineBut(
        "type: resolve, input: customers }",
        "type: resolve, input: customers, after: enrich_customers }",
      ),
      "12 jobs.resolve_customers: depends on itself: resolve_customers → enrich_customers → resolve_customers (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    ],
    [
      inEnrich("after: enrich_customers"),
      "14 jobs.enrich_customers: depends on itself: enrich_customers → enrich_customers (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    ],
    [
      `${fine}  vips: { type: segment_push, name: VIP, sql: select 1, after: [members] }
  members: { type: segment_members, segments: [{ job: vips }] }
`,
      "15 jobs.vips: depends on itself: vips → members → vips (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    ],
    [
      `${fine}  vips: { type: segment_push, name: VIP, sql: select 1 }
  others: { type: segment_push, name: Others, sql: select 1 }
  vips_again: { type: segment_push, name: VIP, sql: select 2 }
`,
      "17 jobs.vips_again.name: is also the name of jobs.vips: the service allows only one segment per name (choose another name, or give one of the two a segment_id)",
    ],
    [
      fineBut("resolve_customers: {", "retention: {"),
      "12 jobs.retention: is a reserved name (a command of this name records its runs under it; choose another name)",
    ],
    [
      fineBut("resolve_customers: {", "Resolve-Customers: {"),
      "12 jobs.Resolve-Customers: is not a valid name (use lower-case letters, digits and _, starting with a letter; at most 63 characters)",
    ],
    [
      fine.slice(0, fine.indexOf("jobs:")).concat("jobs: {}\n"),
      "11 jobs: has no job (see config.example.yaml, or create one with `person-etl init`)",
    ],
    [
      fine.slice(0, fine.indexOf("jobs:")),
      "1 jobs: has no job (see config.example.yaml, or create one with `person-etl init`)",
    ],
  ])("%#", async (text, problem) => {
    expect(await problemsOf(text)).toContain(problem);
  });

  it("pushes may share a name where one segment at most is made", async () => {
    await pushes(", enabled: false", "");
    await pushes("", ", segment_id: 11111111-1111-4111-8111-111111111111");
    await expect(pushes("", "")).rejects.toThrow("1 problem");
  });

  it("a wrong part does not make others wrong: an input with a problem still counts as an input", async () => {
    expect(await problemsOf(fineBut("key: id", "key: 7"))).toEqual([
      "9 inputs.customers.key: must be the name of a column, or a list of at least one (exactly as the database stores it, at most 63 bytes)",
    ]);
  });
});
