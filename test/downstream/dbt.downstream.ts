import { beforeAll, expect, test } from "vitest";
import { runSql } from "../support/run-sql.ts";
import { passMidnight } from "../support/held-day.ts";
import { runDbt } from "./support/dbt.ts";
import {
  changesBetween,
  keyedHash,
  statedCost,
  statedDeaths,
  statedMembership,
  statedPerson,
} from "./support/expected-marts.ts";
import { comparable, type MartRow, type Marts, readMarts } from "./support/marts.ts";
import { CONTACT_JOB, VIP } from "./support/nights-config.ts";
import { ENGINES, martsAfter, placesOf, threeNights, type ThreeNights } from "./support/three-nights.ts";

let nights: ThreeNights;
/** Marts of Postgres after the last night. */
let marts: Marts;

beforeAll(async () => {
  await passMidnight();
  nights = await threeNights();
  marts = await martsAfter(nights, "postgres", 3);
});

const today = () => nights.nights[2]?.truth.now.slice(0, 10) ?? "";
const rowsOf = (name: string): readonly MartRow[] => marts[name] ?? [];
const line = (...values: readonly unknown[]) => values.map(String).join(" ");
const numberOf = (row: MartRow | undefined, column: string) => Number(row?.[column]);

test("dbt build is green on each engine after each night", () => {
  const times = nights.builds.map(({ engine, night, seconds }) => `${engine} ${night}: ${seconds} s`);
  process.stdout.write(`dbt build after each night: ${times.join(", ")}\n`);
  expect(nights.builds.map(({ engine, night, code }) => [engine, night, code])).toEqual(
    [1, 2, 3].flatMap((night) => ENGINES.map((engine) => [engine, night, 0])),
  );
  const statuses = nights.builds.flatMap(({ results }) => results.map(({ status }) => status));
  expect(statuses.filter((status) => !["success", "pass", "no-op"].includes(status))).toEqual([]);
});

test("people have the fields that the sandbox states on the day of their answer", async () => {
  const answers = await runSql(
    nights.postgresUrl,
    "SELECT service_pid, max(request_completed_at) AS at FROM person_data.enrichment WHERE service_pid IS NOT NULL GROUP BY 1",
  );
  const days = new Map(
    answers.map(({ service_pid: pid, at }) => [String(pid), new Date(String(at)).toISOString().slice(0, 10)]),
  );
  expect(rowsOf("dim_person").length).toBeGreaterThan(1500);
  for (const row of rowsOf("dim_person")) {
    const pid = String(row["service_pid"]);
    const stated = statedPerson(pid, days.get(pid) ?? today());
    const columns = Object.keys(row).filter((column) => column in stated);
    expect(columns.length).toBeGreaterThan(20);
    const of = (from: MartRow) => Object.fromEntries(columns.map((column) => [column, from[column]]));
    expect(of(row)).toEqual(of(stated));
  }
});

test("a segment's members, additions and removals are those of the sandbox on each day", () => {
  const rows = rowsOf("fct_segment_membership_daily")
    .filter((row) => row["segment_id"] === VIP)
    .toSorted((a, b) => String(a["day"]).localeCompare(String(b["day"])));
  const changed = rows.filter((row) => numberOf(row, "added") + numberOf(row, "removed") > 0);
  const shown = changed.map((row) => [
    String(row["day"]),
    ...["members", "added", "removed"].map((column) => numberOf(row, column)),
  ]);
  expect(shown).toEqual(statedMembership(nights));
  // One row for each day, also without a change; the erased person had joined on the second night.
  expect(rows.length).toBe(32);
  expect(shown.map((row) => row.slice(1))).toEqual([
    [300, 300, 0],
    [279, 19, 40],
    [284, 15, 10],
  ]);
});

test("deaths are those that the sandbox stated, counted on the day of their first observation", () => {
  const stated = statedDeaths(nights);
  expect(stated.length).toBeGreaterThan(5);
  expect(
    rowsOf("fct_deaths")
      .map((row) => line(row["obituary_id"], row["service_pid"], row["date_of_death"], row["is_reported"]))
      .toSorted(),
  ).toEqual(
    stated
      .map(
        (signal) =>
          `${signal.obituary_id} ${signal.service_pid} ${signal.date_of_death} ${signal.isReported}`,
      )
      .toSorted(),
  );
  const deaths = rowsOf("fct_deaths_daily").map((row) => numberOf(row, "deaths"));
  const dead = new Set(
    stated.filter(({ first_observed_at: at }) => at !== null).map((signal) => signal.service_pid),
  );
  expect(deaths.reduce((sum, count) => sum + count, 0)).toBe(dead.size);
});

test("days of usage are those that the service reports, beside the calls that it received from here", () => {
  const truth = nights.nights[2]?.truth;
  const usage = rowsOf("fct_usage_daily");
  // The calls of the last night itself are counted while they are made.
  const stated = (truth?.endpointDays ?? []).filter(({ day }) => day < today());
  expect(stated.length).toBeGreaterThan(3000);
  expect(
    usage
      .filter((row) => row["calls_reported"] !== null && String(row["day"]) < today())
      .map((row) => line(row["day"], row["endpoint"], row["calls_reported"], row["records_reported"]))
      .toSorted(),
  ).toEqual(
    stated.map((day) => line(day.day, day.endpoint, day.total_requests, day.num_input_records)).toSorted(),
  );
  for (const endpoint of ["v1/resolve", "v2/enrich", "v2/validate_emails"]) {
    const ours = usage.filter((row) => row["endpoint"] === endpoint && row["calls_ledger"] !== null);
    const sum = (column: string) => ours.reduce((total, row) => total + numberOf(row, column), 0);
    const received = truth?.ledger[`POST /${endpoint}`];
    expect([endpoint, sum("calls_ledger"), sum("records_ledger")]).toEqual([
      endpoint,
      received?.requests,
      received?.records,
    ]);
  }
  expect(
    usage
      .filter((row) => row["endpoint"] === "person-search" && String(row["day"]) < today())
      .map((row) =>
        line(
          row["day"],
          row["search_records_delivered"],
          row["searches_created"],
          row["search_parse_requests"],
        ),
      )
      .filter((text) => text >= String(truth?.searchDays[0]?.period_start))
      .toSorted(),
  ).toEqual(
    (truth?.searchDays ?? [])
      .filter((day) => day.period_start < today())
      .map((day) => line(day.period_start, day.records_delivered, day.searches_created, day.parse_requests))
      .toSorted(),
  );
});

test("the cost of each night is what the sandbox billed", () => {
  const stated = statedCost(nights);
  expect(stated.length).toBeGreaterThan(7);
  expect(
    rowsOf("fct_cost_daily")
      .filter((row) => numberOf(row, "records_billed") > 0)
      .map((row) => `${row["day"]} ${row["endpoint"]} ${row["records_billed"]} ${row["amount"]}`)
      .toSorted(),
  ).toEqual(stated);
});

test.for([
  ["fct_job_change", ["work_company_name", "work_title"], false],
  ["fct_move", ["address_line_1", "address_city", "address_state", "address_zipcode"], true],
] as const)("%s has the changes of people between the nights", async ([mart, columns, isOfKnown]) => {
  const built = await Promise.all([1, 2, 3].map((night) => martsAfter(nights, "postgres", night)));
  const stated = changesBetween(built, columns, ([first]) => !isOfKnown || first !== null);
  expect(stated.length).toBeGreaterThan(2);
  const values = (row: MartRow, prefix: string) => columns.map((column) => row[`${prefix}_${column}`]);
  expect(
    rowsOf(mart)
      .map((row) => JSON.stringify([row["service_pid"], values(row, "old"), values(row, "new")]))
      .toSorted(),
  ).toEqual(
    stated
      .filter(([pid]) => pid !== nights.erased.pid)
      .map((change) => JSON.stringify(change))
      .toSorted(),
  );
  const type = mart === "fct_move" ? "address" : "job";
  const daily = rowsOf("fct_person_changes_daily").filter((row) => row["change_type"] === type);
  expect(daily.reduce((sum, row) => sum + numberOf(row, "changes"), 0)).toBe(rowsOf(mart).length);
});

test("a push leaves the segment with as many members as the sandbox has", () => {
  const pushes = rowsOf("fct_segment_push").toSorted((a, b) =>
    String(a["observed_at"]).localeCompare(String(b["observed_at"])),
  );
  expect(new Set(pushes.map((row) => row["segment_name"]))).toEqual(new Set(["Favorites"]));
  const sizes = nights.nights.map(
    ({ truth }) =>
      (truth.segments[String(pushes[0]?.["segment_id"])] ?? []).filter((member) => member.is_member).length,
  );
  expect(pushes.map((row) => numberOf(row, "current_size"))).toEqual(sizes);
  let size = 0;
  for (const row of pushes) {
    size += numberOf(row, "added") - numberOf(row, "removed");
    expect(size).toBe(numberOf(row, "current_size"));
    expect(numberOf(row, "sent")).toBe(numberOf(row, "added") + numberOf(row, "redundant"));
  }
  expect(pushes.some((row) => numberOf(row, "removed") > 0)).toBe(true);
});

test("weeks of usage begin on Mondays of the configured zone and add up to its days", () => {
  const buckets = rowsOf("fct_usage_bucket");
  const weeks = buckets.filter((row) => row["bucketing_size"] === "week");
  expect(new Set(weeks.map((row) => row["timezone"]))).toEqual(new Set(["Europe/Berlin"]));
  const starts = weeks
    .map((row) => String(row["bucket_start_local"]))
    .filter((at) => !at.startsWith("2026-01-01"));
  expect(starts.length).toBeGreaterThan(500);
  expect(starts.filter((at) => !at.endsWith("T00:00:00") || new Date(`${at}Z`).getUTCDay() !== 1)).toEqual(
    [],
  );
  for (const row of buckets.filter((each) => numberOf(each, "num_input_records") > 0)) {
    expect(numberOf(row, "overall_match_rate")).toBeCloseTo(
      numberOf(row, "num_matches") / numberOf(row, "num_input_records"),
      4,
    );
  }
  const allTime = rowsOf("fct_endpoint_usage").filter((row) => row["endpoint"] === "v2/enrich");
  expect(allTime.length).toBe(3);
  expect(allTime.filter((row) => row["last_requested_at"] === null)).toEqual([]);
});

test("a profile is the matched row with the person", async () => {
  const people = new Map(rowsOf("dim_person").map((row) => [row["service_pid"], row]));
  const links = await runSql(
    nights.postgresUrl,
    "SELECT count(*)::integer AS links FROM person_data.identity_link",
  );
  const profiles = rowsOf("dim_profile");
  expect(profiles.length).toBe(links[0]?.["links"]);
  expect(profiles.filter((row) => row["is_enriched"] === "true").length).toBeGreaterThan(1500);
  for (const row of profiles) {
    const person = people.get(row["service_pid"] ?? "");
    expect(row["is_enriched"]).toBe(String(person !== undefined));
    for (const column of ["full_name", "email_address", "phone_number", "address_city", "work_title"])
      expect(row[column]).toBe(person?.[column] ?? null);
  }
});

test("searches, contact jobs, deceased customers and the stated plan are there", () => {
  const [contact] = rowsOf("fct_contact_job");
  expect(contact).toMatchObject({
    job_id: CONTACT_JOB.job_id,
    status: "completed",
    results_unlocked: "true",
  });
  expect(rowsOf("fct_contact_result").length).toBe(numberOf(contact, "result_count"));
  const searches = new Map(rowsOf("fct_search").map((row) => [row["search_name"], row]));
  expect(new Set(searches.keys())).toEqual(new Set(["cfos", "nurses"]));
  for (const search of searches.values()) {
    const found = rowsOf("fct_search_result").filter((row) => row["search_id"] === search["search_id"]);
    expect(found.length).toBe(numberOf(search, "people_returned"));
  }
  expect(new Set(rowsOf("fct_deceased_customer").map((row) => row["date_of_death"]))).toEqual(
    new Set(["2026-06-01"]),
  );
  expect(rowsOf("fct_plan_stated")).toMatchObject([
    { endpoint: "usage", records_left: "120", overage_records_available: "0", records_requested: "500" },
  ]);
});

test("the marts of the three engines are equal, row by row, after each night", async () => {
  for (const night of [1, 2, 3]) {
    const expected = comparable(await martsAfter(nights, "postgres", night));
    expect(Object.keys(expected).length).toBeGreaterThan(12);
    for (const engine of ["duckdb", "bigquery"] as const) {
      const found = comparable(await martsAfter(nights, engine, night));
      expect([engine, night, Object.keys(found)]).toEqual([engine, night, Object.keys(expected)]);
      for (const [name, rows] of Object.entries(expected)) {
        expect([engine, night, name, found[name]]).toEqual([engine, night, name, rows]);
      }
    }
  }
});

test("an erased person is nowhere: in no mart, history or suppression list of any engine", async () => {
  const { pid, emails } = nights.erased;
  for (const engine of ENGINES) {
    const before = JSON.stringify(await martsAfter(nights, engine, 2));
    const after = JSON.stringify(await martsAfter(nights, engine, 3));
    expect(before).toContain(pid);
    for (const value of [pid, ...emails]) expect([engine, after.includes(value)]).toEqual([engine, false]);
  }
});

test("the suppression list holds keyed hashes of the erased, the dead and the invalid addresses, and nothing else", async () => {
  const rows = rowsOf("suppression_list");
  expect(new Set(rows.flatMap((row) => Object.keys(row)))).toEqual(
    new Set(["subject_kind", "subject_hash", "reason", "since"]),
  );
  const hashes = (reason: string) =>
    rows.filter((row) => row["reason"] === reason).map((row) => String(row["subject_hash"]));
  expect(rows.filter((row) => !/^[0-9a-f]{64}$/.test(String(row["subject_hash"])))).toEqual([]);
  const dead = new Set(statedDeaths(nights).map((signal) => signal.service_pid));
  expect(hashes("deceased").toSorted()).toEqual([...dead].map((pid) => keyedHash(`pid:${pid}`)).toSorted());
  const invalid = await runSql(
    nights.postgresUrl,
    "SELECT email_address FROM person_data.email_validation WHERE email_validation_status = 'invalid'",
  );
  expect(invalid.length).toBeGreaterThan(50);
  const addresses = new Set(
    invalid.map((row) =>
      String(row["email_address"])
        .trim()
        .replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase()),
    ),
  );
  expect(hashes("invalid_address").toSorted()).toEqual(
    [...addresses].map((address) => keyedHash(`email:${address}`)).toSorted(),
  );
  const { pid, emails, sourceKey } = nights.erased;
  expect(hashes("erased")).toEqual(
    expect.arrayContaining([
      keyedHash(`pid:${pid}`),
      keyedHash(`source_key:9:customers:${sourceKey}`),
      ...emails.map((address) => keyedHash(`email:${address.toLowerCase()}`)),
    ]),
  );
});

test.for(ENGINES)(
  "on %s, a build heals what a kill between delete and append left, and equals a full refresh",
  async (engine) => {
    const { project, store } = placesOf(nights.folder, nights)[engine];
    const expected = comparable(await martsAfter(nights, engine, 3));
    const lists = ["address", "education", "email", "employment", "phone", "relative"];
    const incremental = ["dim_person", ...lists.map((list) => `fct_${list}`)];
    const people = store.schema("people");
    for (const name of incremental) {
      await store.ask(`DELETE FROM ${people}.${name} WHERE service_pid LIKE '%7'`);
    }
    const models = async (...more: readonly string[]) => {
      const { code, output } = await runDbt(project, ["run", "--select", ...incremental, ...more]);
      expect([code, code === 0 ? "" : output]).toEqual([0, ""]);
      return comparable(await readMarts(store));
    };
    expect(Object.keys(comparable(await readMarts(store)))).toEqual(Object.keys(expected));
    expect(await models()).toEqual(expected);
    expect(await models("--full-refresh")).toEqual(expected);
  },
);
