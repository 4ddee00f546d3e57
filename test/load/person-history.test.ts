import { describe, expect, test } from "vitest";
import { useContext } from "./postgres-context.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import { erase } from "./suite/erased-couple.ts";
import { commitAt, commitOf, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { commitPersons, looseRecord, partialPerson, readRows, wholePerson } from "./suite/person-updates.ts";

const context = useContext();

const DAY = 24 * 60 * 60 * 1000;
const emails = (...addresses: readonly string[]) =>
  addresses.map((email_address, i) => ({ email_rank: i + 1, email_address }));
const job = (work_company_name: string, work_status = "current") => ({
  experience_rank: 1,
  work_company_name,
  work_status,
});
const ann = {
  full_name: "Ann Lee",
  age: 45,
  personal_emails: emails("ann@home.example"),
  professional_emails: emails("ann@work.example"),
  relatives: [{ relative_service_pid: "p-bob" }],
  work_experience: [job("Acme")],
};

/** Commits whole answers about Ann, one after the other, each with these changes of the one before. */
async function answer(...changes: readonly object[]): Promise<void> {
  let fields = ann;
  for (const change of changes) {
    fields = { ...fields, ...change };
    await commitPersons(context, [wholePerson("p-ann", fields)]);
  }
}

/** Makes everything stored so many days older. */
const age = (days: number) =>
  context.sql(
    ["person", "person_email", "person_work_experience", "person_relative"]
      .map((name) => `UPDATE person_data.${name} SET _synced_at = _synced_at - interval '${days} days'`)
      .concat(
        `UPDATE person_data.person_history SET valid_from = valid_from - interval '${days} days', valid_to = valid_to - interval '${days} days'`,
      )
      .join("; "),
  );

const groups = () =>
  columnOf(context, "SELECT field_group FROM person_data.person_history ORDER BY field_group, valid_from");

const contents = (group: string, path: string) =>
  columnOf(
    context,
    `SELECT content #>> '${path}' FROM person_data.person_history WHERE field_group = '${group}' ORDER BY valid_from`,
  );

/** True if the intervals of each group follow each other without a gap, and none is empty. */
const areInOrder = () =>
  valueOf(
    context,
    `SELECT bool_and(valid_from < valid_to AND valid_from = coalesce(before, valid_from)) FROM (
      SELECT *, lag(valid_to) OVER (PARTITION BY service_pid, field_group ORDER BY valid_from) AS before
      FROM person_data.person_history) AS h`,
  );

/** Commits answers about Ann in one transaction, each for its own row, with the job at each company; the second row sent another PID. */
async function answerAtOnce(...companies: readonly string[]) {
  const spec = enrichSpec();
  const run = runOf(spec);
  await readRows(
    context,
    spec,
    run,
    companies.map((_, i) => String(i + 1)),
  );
  const replies = companies.map(
    (name, i) =>
      [
        { ...looseRecord(String(i + 1)), sentPid: i === 1 ? "p-anna" : null },
        { pid: "p-ann", person: partialPerson("p-ann", { work_experience: [job(name)] }) },
      ] as const,
  );
  const commit = commitOf(context.warehouse, spec, run, replies);
  await commitAt(context.warehouse, commit);
  return commit;
}

describe("the history of people", () => {
  test("keeps each field group as it was before an answer changed it, and nothing else", async () => {
    await answer({}, {});
    expect(await groups()).toEqual([]);
    await age(1);
    await answer({ full_name: "Ann Roe", work_experience: [job("Acme", "previous"), job("Bolt")] });
    expect(await groups()).toEqual(["scalars", "work_experience"]);
    const [row] = await context.sql(`SELECT h.content ->> 'full_name' AS name, h.content ->> 'age' AS age,
        w.content #- '{0,work_start_on}' AS work, h.content ?| '{service_pid,_synced_at,_run_id,_record_synced_at}' AS has_more
      FROM person_data.person_history AS h JOIN person_data.person_history AS w USING (service_pid)
      WHERE h.field_group = 'scalars' AND w.field_group = 'work_experience'`);
    expect(row).toMatchObject({ name: "Ann Lee", age: "45", has_more: "false" });
    const [old] = JSON.parse(row?.["work"] ?? "") as readonly object[];
    expect(old).toMatchObject({ work_company_name: "Acme", work_status: "current", experience_rank: 1 });
    expect(old).not.toHaveProperty("position");
    // A day old, as the content was, until the transaction that replaced it.
    const times =
      "SELECT bool_and(valid_to = _synced_at AND valid_to - valid_from > interval '23 hours') FROM person_data.person_history";
    expect(await valueOf(context, times)).toBe("true");
    const run =
      "SELECT bool_and(h._run_id = p._run_id) FROM person_data.person_history h, person_data.person p";
    expect(await valueOf(context, run)).toBe("true");
  });

  test("has a list that was empty, from the day on which the person was stored", async () => {
    await answer({ phones: [] });
    await age(3);
    await answer({ phones: [] }, { full_name: "Ann Roe" });
    await age(2);
    await answer({ full_name: "Ann Roe", phones: [{ phone_rank: 1, phone_number: "1" }] });
    const [row] =
      await context.sql(`SELECT content, round(extract(epoch FROM valid_to - valid_from) / 86400) AS days
      FROM person_data.person_history WHERE field_group = 'phones'`);
    expect(row).toEqual({ content: "[]", days: "5" });
  });

  test("follows content that comes and goes, also with a clock that runs backwards", async () => {
    await answer({}, { work_experience: [job("Bolt")] });
    await age(-1);
    await answer({}, { work_experience: [] }, { work_experience: [job("Acme")] });
    expect(await contents("work_experience", "{0,work_company_name}")).toEqual([
      "Acme",
      "Bolt",
      "Acme",
      null,
    ]);
    expect(await areInOrder()).toBe("true");
  });

  test("tells the two lists of e-mails apart", async () => {
    await answer({}, { professional_emails: emails("ann@bolt.example") });
    expect(await groups()).toEqual(["professional_emails"]);
    expect(await contents("professional_emails", "{}")).toEqual([
      '[{"_extra": null, "email_rank": 1, "email_address": "ann@work.example"}]',
    ]);
  });

  test("has nothing of groups that an answer leaves out, or brings again in other hashes", async () => {
    await answer({});
    await commitPersons(context, [partialPerson("p-ann", { full_name: "Ann Lee", phones: [] })]);
    await context.sql(
      "UPDATE person_data_state.person_state SET group_hashes = repeat('-', length(group_hashes))",
    );
    await answer({});
    expect(await groups()).toEqual([]);
    await commitPersons(context, [partialPerson("p-ann", { work_experience: [] })]);
    expect(await groups()).toEqual(["work_experience"]);
  });

  test("has one row for rows that reach a person by two PIDs with the same change", async () => {
    await answer({});
    await answerAtOnce("Bolt", "Bolt", "Bolt");
    expect(await columnOf(context, "SELECT sent_service_pid FROM person_data.person_pid_alias")).toEqual([
      "p-anna",
    ]);
    expect(await contents("work_experience", "{0,work_company_name}")).toEqual(["Acme"]);
  });

  test("of several answers in one commit has what each of them replaced, and the last one is stored", async () => {
    await answer({});
    const commit = await answerAtOnce("Bolt", "Cask", "Acme", "Dale");
    expect(await contents("work_experience", "{0,work_company_name}")).toEqual([
      "Acme",
      "Bolt",
      "Cask",
      "Acme",
    ]);
    const stored = "SELECT work_company_name FROM person_data.person_work_experience";
    expect(await columnOf(context, stored)).toEqual(["Dale"]);
    expect(await areInOrder()).toBe("true");
    // As after a kill between the commit and the removal of the file.
    await context.warehouse.commitLookup(commit);
    expect(await groups()).toHaveLength(4);
  });

  test("is not kept if the configuration says so", async () => {
    const spec = enrichSpec();
    const run = runOf(spec);
    await answer({});
    await readRows(context, spec, run, ["1"]);
    const person = wholePerson("p-ann", { full_name: "Ann Roe" });
    const commit = commitOf(context.warehouse, spec, run, [[looseRecord("1"), { pid: "p-ann", person }]]);
    await commitAt(context.warehouse, { ...commit, keepsPeople: false });
    expect(await valueOf(context, "SELECT full_name FROM person_data.person")).toBe("Ann Roe");
    expect(await groups()).toEqual([]);
  });

  test("goes with an erased person, and from the content of others", async () => {
    const bob = {
      full_name: "Bob",
      relatives: [{ relative_service_pid: "p-ann" }],
      work_experience: [job("Acme")],
    };
    const changed = { full_name: "Bob Roe", relatives: [], work_experience: [] };
    await answer({}, { full_name: "Ann Roe" });
    for (const fields of [bob, changed]) await commitPersons(context, [wholePerson("p-bob", fields)]);
    const { removed } = await erase(context, { pids: ["p-ann"] });
    expect(removed["person_history"]).toBe(2);
    const left =
      "SELECT field_group || (content IS NULL) FROM person_data.person_history WHERE service_pid = 'p-bob' ORDER BY 1";
    expect(await columnOf(context, left)).toEqual(["relativestrue", "scalarsfalse", "work_experiencefalse"]);
    expect(await valueOf(context, "SELECT count(*) FROM person_data.person_history")).toBe("3");
  });

  test("is as long as its retention", async () => {
    await answer({}, { full_name: "Ann Roe" });
    await age(9);
    await answer({ full_name: "Ann Roe" }, { full_name: "Ann Moe" });
    const rule = { table: "person_history", keep: "history", age: "valid_to" } as const;
    const removed = await context.warehouse.removeOld([{ rule, keepMs: 7 * DAY }]);
    expect(removed).toEqual({ person_history: 1 });
    expect(await contents("scalars", "{full_name}")).toEqual(["Ann Roe"]);
  });
});
