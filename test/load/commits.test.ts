import { sql } from "kysely";
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Drift } from "../../src/schemas/convert.ts";
import { schemaOf } from "../../src/schemas/registry.ts";
import { useContext } from "./postgres-context.ts";
import { columnOf, ROW_VERSION, schemaNames, valueOf } from "./suite/context.ts";
import { callOf, commitOf, rejectOf, type Reply, runNight, runOf } from "./suite/nights.ts";
import { enrichSpec, makePeople, resolveSpec, validateSpec } from "./suite/people.ts";
import { commitPersons, looseRecord, partialPerson, readRows, wholePerson } from "./suite/person-updates.ts";

const context = useContext();
const spec = enrichSpec();
const run = runOf(spec, "run-1");

/** Commit of rows with these keys and replies. Reads the rows. */
async function prepare(...replies: readonly (readonly [key: string, reply: Reply])[]) {
  const records = replies.map(([key, reply]) => [looseRecord(key), reply] as const);
  await readRows(
    context,
    spec,
    run,
    replies.map(([key]) => key),
  );
  return commitOf(context.warehouse, spec, run, records);
}

const matched = (pid: string): Reply => ({ pid, person: wholePerson(pid, { full_name: pid }) });

const written = [
  "person",
  "person_state",
  "enrichment",
  "match_history",
  "lookup_answer",
  "reject",
  "schema_drift",
];

/** Rows of written tables, with their versions. */
async function contents() {
  const found: Record<string, unknown> = {};
  for (const table of written) {
    const name = `${schemaNames[schemaOf(table)]}.${table}`;
    found[table] = await columnOf(
      context,
      `SELECT concat_ws(' ', ${ROW_VERSION}, t) FROM ${name} AS t ORDER BY 1`,
    );
  }
  return found;
}

describe("a commit", () => {
  test("applied twice changes nothing the second time", async () => {
    const { warehouse } = context;
    await warehouse.beginRun(run);
    const drift: Drift = {
      endpoint: "POST /v2/enrich",
      path: "age",
      kind: "unexpected_type",
      observedType: "string",
      occurrences: 2,
    };
    const commit = {
      ...(await prepare(["1", matched("p-1")], ["2", matched("p-2")], ["refused", null])),
      rejects: [rejectOf(looseRecord("refused"), "unprocessable_entity")],
      drift: [drift],
    };
    const answers = commit.answers.slice(0, 2);
    await warehouse.commitLookup({ ...commit, answers });
    const totals = () => context.sql("SELECT requests, rows_written FROM person_data_ops.sync_run");
    const before = [await contents(), await totals()];
    const again = await warehouse.commitLookup({ ...commit, answers });
    expect(again).toMatchObject({ rowsWritten: 0, notLoadable: [] });
    expect([await contents(), await totals()]).toEqual(before);
    expect(await valueOf(context, "SELECT count(*) FROM person_data_state.lookup_answer")).toBe("3");
  });

  test("an attempt that is recorded again, as its reply was lost, counts once", async () => {
    await context.warehouse.beginRun(run);
    const failed = callOf({ httpStatus: 503, recordsMatched: null });
    for (let tries = 0; tries < 2; tries++) {
      await context.warehouse.recordAttempts(run, [failed], { requests: 1, retries: 1 });
    }
    const totals = await context.sql("SELECT requests, retries FROM person_data_ops.sync_run");
    expect(totals).toEqual([{ requests: "1", retries: "1" }]);
  });

  test("survives a crash of the server, whatever the role's default for commits", async () => {
    const { db } = context.warehouse;
    const client = await db.pool.connect();
    await client.query("SET synchronous_commit = off");
    client.release();
    const shown = await db.transaction(run, (session) => session.rows(sql`SHOW synchronous_commit`));
    expect(shown).toEqual([{ synchronous_commit: "on" }]);
  });
});

describe("a value that the database refuses", () => {
  const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
  const BIRTHDAY = 6;
  test.each([
    ["a PID too long for an index", { servicePid: randomBytes(1500).toString("hex") }, "54000"],
    ["a number beyond every exponent in _extra", { extra: '{"x": 1e999999}' }, "22003"],
    ["JSON nested beyond every depth in _extra", { extra: `{"x": ${deep}}` }, "54001"],
    [
      "a day that the calendar doesn't have",
      { scalars: wholePerson("p").scalars.with(BIRTHDAY, "2026-02-30") },
      "22008",
    ],
    ["a NUL in a text", { extra: '{"x": "\\u0000"}' }, "22P05"],
  ])("(%s) costs its record only", async (_, fault, sqlstate) => {
    const keys = ["1", "2", "3", "refused", "4", "5"];
    const replies = keys.map((key): readonly [string, Reply] => {
      const person = { ...wholePerson(`p-${key}`), ...(key === "refused" ? fault : {}) };
      return [key, { pid: person.servicePid, person }];
    });
    const { notLoadable } = await context.warehouse.commitLookup(await prepare(...replies));
    expect(notLoadable).toEqual([looseRecord("refused").recordId]);
    const pids = keys.filter((key) => key !== "refused").map((key) => `p-${key}`);
    expect(await columnOf(context, "SELECT service_pid FROM person_data.person ORDER BY 1")).toEqual(pids);
    const rejects = await context.sql("SELECT source_key, stage, code, details FROM person_data.reject");
    const details = `{"sqlstate": "${sqlstate}"}`;
    expect(rejects).toEqual([{ source_key: "refused", stage: "load", code: "not_loadable", details }]);
    const rejected = "SELECT count(*) FROM person_data_state.lookup_answer WHERE outcome = 'rejected'";
    expect(await valueOf(context, rejected)).toBe("1");
  });
});

const day = (n: number) => `2026-11-0${n}T00:00:00+00:00`;
const shown = (n: number) => `2026-11-0${n} 00:00:00+00`;

const next = (microsecond: number) => `2026-11-03 00:00:00.00000${microsecond}+00`;

describe("the answer to a row", () => {
  const resend = resolveSpec({ resend: true });

  test("the answer of an earlier call changes neither the row, nor its history, nor its state", async () => {
    await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
    await runNight(context, resend, () => ({ pid: "p-1" }), { at: day(2) });
    await runNight(context, validateSpec(), () => ({ pid: "", status: "valid" }), { at: day(2) });
    const tables = ["resolution", "email_validation", "match_history"].map((name) => `person_data.${name}`);
    const versions = [...tables, "person_data_state.lookup_answer"].map(
      (name) => `SELECT ${ROW_VERSION} FROM ${name}`,
    );
    const read = () => columnOf(context, `${versions.join(" UNION ALL ")} ORDER BY 1`);
    const before = await read();
    const late = { at: day(3), callNumber: -1 };
    await runNight(context, resend, () => ({ pid: "p-old" }), late);
    await runNight(context, validateSpec({ resend: true }), () => ({ pid: "", status: "invalid" }), late);
    expect(await read()).toEqual(before);
  });

  test("of a later call counts, though the service's clock ran backwards", async () => {
    await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
    for (const [n, pid] of [
      [3, "p-1"],
      [1, "p-2"],
      [2, "p-3"],
    ] as const) {
      await runNight(context, resend, () => ({ pid }), { at: day(n) });
    }
    const row = "SELECT service_pid, request_completed_at FROM person_data.resolution";
    expect(await context.sql(row)).toEqual([{ service_pid: "p-3", request_completed_at: shown(2) }]);
    const history =
      "SELECT concat_ws(' to ', valid_from, valid_to) FROM person_data.match_history ORDER BY valid_from";
    expect(await columnOf(context, history)).toEqual([
      `${shown(3)} to ${next(1)}`,
      `${next(1)} to ${next(2)}`,
      next(2),
    ]);
  });
});

const emails = (...addresses: string[]) =>
  addresses.map((email_address, i) => ({ email_rank: i + 1, email_address }));
const phone = { phone_rank: 1, phone_number: "+1 555 0100" };
const ann = {
  full_name: "Ann Lee",
  age: 45,
  personal_emails: emails("ann@home.example", "ann@other.example"),
  professional_emails: emails("ann@work.example"),
  phones: [phone],
};
const whole = wholePerson("p-ann", ann);

/** The stored person: name, age, and numbers of e-mails and phones. */
const stored = () =>
  valueOf(
    context,
    `SELECT concat_ws(', ', full_name, age, (SELECT count(*) FROM person_data.person_email),
      (SELECT count(*) FROM person_data.person_phone)) FROM person_data.person`,
  );

describe("of several answers about a person", () => {
  test("that of the latest call is stored, in any order of loading and whatever the service's clock", async () => {
    await commitPersons(context, [whole], { completedAt: day(1), callNumber: 2 });
    const earlier = wholePerson("p-ann", { full_name: "Somebody Else" });
    await commitPersons(context, [earlier], { completedAt: day(3), callNumber: 1 });
    expect(await stored()).toBe("Ann Lee, 45, 3, 1");
    await commitPersons(context, [earlier], { completedAt: day(1), callNumber: 3 });
    expect(await stored()).toBe("Somebody Else, 0, 0");
  });

  test("a later partial one doesn't hold up an earlier whole one elsewhere", async () => {
    await commitPersons(context, [whole], { callNumber: 1 });
    await commitPersons(context, [partialPerson("p-ann", { phones: [] })], { callNumber: 3 });
    const changed = wholePerson("p-ann", { ...ann, age: 46, phones: [phone, phone], personal_emails: [] });
    await commitPersons(context, [changed], { callNumber: 2 });
    expect(await stored()).toBe("Ann Lee, 46, 1, 0");
  });

  test("a partial one about a new person keeps an earlier whole one from nothing else", async () => {
    await commitPersons(context, [partialPerson("p-ann", { phones: [phone, phone] })], { callNumber: 2 });
    await commitPersons(context, [whole], { callNumber: 1 });
    expect(await stored()).toBe("Ann Lee, 45, 3, 2");
  });

  test("partial ones in a commit add up, and change only their own fields of a whole one", async () => {
    await commitPersons(context, [
      partialPerson("p-ann", { age: 45, full_name: "Ann" }),
      partialPerson("p-ann", { full_name: "Ann Lee", phones: [phone] }),
      partialPerson("p-ann", { personal_emails: emails("ann@home.example") }),
    ]);
    expect(await stored()).toBe("Ann Lee, 45, 1, 1");
    await commitPersons(context, [whole, partialPerson("p-ann", { age: 46, phones: [] })]);
    expect(await stored()).toBe("Ann Lee, 46, 3, 0");
  });
});
