import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { openDuckDb } from "../../src/publish/duckdb/session.ts";
import { passMidnight } from "../support/held-day.ts";
import { controlSandbox } from "../support/sandbox-control.ts";
import { runCli, runJson } from "./support/cli.ts";
import { makeSetting, PEOPLE } from "./support/setting.ts";

/** Days between the refreshes, in which people change at the service. */
const YEAR = 400;

const JOBS = `jobs:
  resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }
  watched: { type: segment_push, name: Customers, after: [enrich_customers], sql: "select service_pid from person_data.identity_link" }
  deaths: { type: death_signals, segments: [{ job: watched }] }
publish: { local: { type: duckdb, path: people.duckdb } }
`;

/** Queries of a person, each of one text column. */
const VIEWS = {
  person: "SELECT service_pid FROM person_data.person WHERE service_pid = $pid",
  job: "SELECT work_company_name FROM person_data.person_current_job WHERE service_pid = $pid",
  city: "SELECT address_city FROM person_data.person_current_address WHERE service_pid = $pid",
  history: "SELECT DISTINCT field_group FROM person_data.person_history WHERE service_pid = $pid ORDER BY 1",
  jobs: "SELECT concat_ws(' > ', old_work_company_name, new_work_company_name) FROM person_data.person_job_change WHERE service_pid = $pid",
  moves:
    "SELECT concat_ws(' > ', old_address_city, new_address_city) FROM person_data.person_move WHERE service_pid = $pid",
  deceased:
    "SELECT CAST(date_of_death AS varchar) FROM person_data.deceased_customer WHERE service_pid = $pid",
} as const;

const valuesOf = (rows: readonly object[]) => rows.map((row) => String(Object.values(row)[0]));

test("a customer changes jobs, moves, dies and is erased: tables, views and the published copy follow", async () => {
  await passMidnight();
  const sandbox = await startSandbox({ seed: 1, people: PEOPLE });
  onTestFinished(() => sandbox.close());
  const setting = await makeSetting({ rows: 1000, baseUrl: sandbox.url, jobs: JOBS });
  await controlSandbox(sandbox.url, "/clock", { days: -420 });
  const refresh = async () => {
    const { code, document } = await runJson(["run", "--resend", "--yes"], setting);
    expect([code, document["status"]]).toEqual([0, "succeeded"]);
    return document;
  };
  /** Reads the views of a person in the warehouse and in the published copy, which are equal. */
  const look = async (pid: string) => {
    const copy = await openDuckDb(join(setting.cwd, "people.duckdb"), setting.cwd);
    try {
      const shown: Partial<Record<keyof typeof VIEWS, readonly string[]>> = {};
      for (const [name, sql] of Object.entries(VIEWS)) {
        const text = sql.replace("$pid", `'${pid}'`);
        const values = valuesOf(await setting.query(text));
        expect([name, valuesOf(await copy.rows(text))]).toEqual([name, values]);
        shown[name as keyof typeof VIEWS] = values; // its own keys
      }
      return shown;
    } finally {
      copy.close();
    }
  };

  await refresh();
  const atFirst = await setting.query(
    "SELECT service_pid, work_company_name FROM person_data.person_current_job WHERE work_company_name IS NOT NULL",
  );
  await controlSandbox(sandbox.url, "/clock", { days: YEAR });
  await refresh();
  await controlSandbox(sandbox.url, "/clock", { days: YEAR });
  expect(await refresh()).toMatchObject({
    people_changed: { people: expect.any(Number), by_field_group: { work_experience: expect.any(Number) } },
  });
  const [customer] = await setting.query(`SELECT min(service_pid) AS pid FROM (
    SELECT service_pid FROM person_data.person_move JOIN person_data.person_job_change AS j USING (service_pid)
    WHERE old_work_company_name IS NOT NULL
      AND NOT EXISTS (SELECT FROM person_data.deceased_customer AS d WHERE d.service_pid = j.service_pid)
    GROUP BY 1 HAVING count(*) = 1) AS once`);
  const pid = String(customer?.["pid"]);
  const company = atFirst.find(({ service_pid: one }) => one === pid)?.["work_company_name"];
  const moved = await look(pid);
  const { job: [job] = [], city: [city] = [], jobs: [change] = [], moves: [move] = [] } = moved;
  expect(change).toBe(`${String(company)} > ${job}`);
  expect(move).toMatch(new RegExp(`^.+ > ${city}$`, "u"));
  expect(moved).toMatchObject({
    person: [pid],
    history: expect.arrayContaining(["address_history", "work_experience"]),
    deceased: [],
  });

  const death = { service_pid: pid, obituary_id: "obit-1", date_of_death: "2026-11-02" };
  await controlSandbox(sandbox.url, "/deaths", { set: [death] });
  await refresh();
  expect(await look(pid)).toMatchObject({ ...moved, deceased: ["2026-11-02"] });

  const erased = await runCli(["erase", "--pid", pid, "--yes"], setting);
  expect([erased.code, erased.stderr]).toEqual([0, expect.any(String)]);
  const none = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, []]));
  expect(await look(pid)).toEqual(none);
  await refresh();
  expect(await look(pid)).toEqual(none);
});
