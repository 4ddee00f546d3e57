import { describe, expect, test } from "vitest";
import { flattenAudienceSearch } from "../../src/schemas/audience-search.ts";
import { flattenContactJob, flattenContactResults } from "../../src/schemas/contact-jobs.ts";
import { flattenPersonSearch, type TableRows } from "../../src/schemas/person-search.ts";
import { DriftLog } from "../../src/schemas/convert.ts";
import { tableNamed } from "../../src/schemas/registry.ts";

// Every field of sections 2.4 to 2.8 of the service's interface, written down from the document, each with a value of its own.

const search = {
  search_id: "s-1",
  query: "nurses in Ohio",
  results: ["p-1", "p-2"],
  total_count: 31,
  result_count: 2,
  total_contact_coverage: {
    personal_email: { count: 21, percent: 67.74193548387096 },
    professional_email: { count: 11, percent: 35.48387096774194 },
    phone: { count: 30, percent: 96.7741935483871 },
    linkedin: { count: 19, percent: 61.29032258064516 },
  },
  results_contact_coverage: {
    personal_email: { count: 2, percent: 100 },
    professional_email: { count: 0, percent: 0 },
    phone: { count: 1, percent: 50 },
    linkedin: { count: 2, percent: 100 },
  },
  created_at: "2026-11-22T05:06:07.123456Z",
};

const audience = {
  segment_id: "g-1",
  status: "failed",
  error: { code: "search_criteria_failed", message: "Use another query.", retryable: false },
  materialization_extent: "full",
  created_at: "2026-11-22T05:06:07.123456Z",
  updated_at: "2026-11-22T05:06:09.000001Z",
  full_criteria_tree: { node_type: "CRITERIA", criteria: "nurses", node_status: "FULL" },
  error_criteria: [{ criteria: "left-handed" }],
  suggested_search: "nurses",
  total_count: 200,
  estimated_billable_count: 201,
  billable_count: 150,
  results_unlocked: true,
  stats: {
    coverage: {
      email: { count: 100, percentage: 50 },
      phone: { count: 67, percentage: 33.5 },
      address: { count: 1, percentage: 0.5 },
    },
    distributions: {
      age: [
        { label: "Under 18", count: 2, percentage: 1 },
        { label: "75+", count: 3, percentage: 1.5 },
      ],
      gender: [{ label: "Female", count: 4, percentage: 2 }],
      education_level: [{ label: "masters", count: 5, percentage: 2.5 }],
      job_title: [{ label: "registered nurse", count: 6, percentage: 3 }],
      home_ownership: [{ label: "Rented", count: 7, percentage: 3.5 }],
      income: [{ label: "$250,000+", count: 8, percentage: 4 }],
      wealth: [{ label: "<$10,000", count: 9, percentage: 4.5 }],
      current_address_state: [{ label: "Other", count: 10, percentage: 5 }],
    },
  },
  worker: { status: "running", heartbeat_at: "2026-11-22T05:06:08Z" },
};
const named = { search_name: "nurses", query: "left-handed nurses" };

const contactJob = {
  job_id: "j-1",
  job_type: "contact_append",
  status: "completed",
  created_at: "2026-11-22T05:06:01+00:00",
  result_count: 12,
  total_matched: 13,
  results_unlocked: true,
  error_code: "none",
  message: "no message",
  started_at: "2026-11-22T05:06:02+00:00",
  completed_at: "2026-11-22T05:06:03+00:00",
  updated_at: "2026-11-22T05:06:04+00:00",
};
const contactResult = {
  service_pid: "p-9",
  matched_job_title: "cfo",
  current_job_title: "CFO",
  matched_company: { name: "Northwind", domain: "northwind.example", linkedin_url: "https://l.example/n" },
  matched_naics_code: "622110",
  jacket: { full_name: "Ana Núñez", linkedin_url: "https://l.example/ana", shoe_size: 38.5 },
};

/** Rows of a table by column name. */
function rowsOf(tables: readonly TableRows[], name: string): readonly object[] | undefined {
  const found = tables.find(({ table }) => table === name);
  return found?.rows.map((row) => Object.fromEntries(found.columns.map((column, i) => [column, row[i]])));
}

const OF_MEMBERS = ["unlocked_at", "members_stored_at"];

/** Columns that flattening fills: all but those of the run and of the reading of members. */
function filledColumns(name: string): readonly string[] {
  const unfilled = ["_synced_at", "_run_id", ...(name === "audience_search" ? OF_MEMBERS : [])];
  return tableNamed(name).columns.flatMap(({ name }) => (unfilled.includes(name) ? [] : [name]));
}

function expectWholeTables(tables: readonly TableRows[]): void {
  for (const { table, columns, rows } of tables) {
    expect(columns.toSorted()).toEqual(filledColumns(table).toSorted());
    for (const row of rows) expect(row.length).toBe(columns.length);
  }
}

describe("a person search", () => {
  test("becomes a row, its coverage by scope and channel, and its PIDs by position", () => {
    const drift = new DriftLog("POST /person-search/v0/search");
    const tables = flattenPersonSearch(search, "ohio", drift);
    expectWholeTables(tables);
    expect(drift.entries()).toEqual([]);
    expect(rowsOf(tables, "person_search")).toEqual([
      {
        search_id: "s-1",
        search_name: "ohio",
        query: "nurses in Ohio",
        total_count: "31",
        result_count: "2",
        created_at: "2026-11-22T05:06:07.123456+00:00",
        _extra: null,
      },
    ]);
    const coverage = rowsOf(tables, "person_search_coverage");
    expect(coverage?.length).toBe(8);
    expect(coverage?.[0]).toEqual({
      search_id: "s-1",
      scope: "total",
      channel: "personal_email",
      count: "21",
      percent: "67.74193548387096",
      _extra: null,
    });
    expect(coverage?.[6]).toEqual({
      search_id: "s-1",
      scope: "results",
      channel: "phone",
      count: "1",
      percent: "50",
      _extra: null,
    });
    expect(rowsOf(tables, "person_search_result")).toEqual([
      { search_id: "s-1", position: "0", service_pid: "p-1" },
      { search_id: "s-1", position: "1", service_pid: "p-2" },
    ]);
  });

  test("keeps what isn't declared in _extra, and records it as drift", () => {
    const drift = new DriftLog("POST /person-search/v0/search");
    const tables = flattenPersonSearch(
      {
        ...search,
        results: ["p-1", 7],
        score: 1,
        total_contact_coverage: { fax: { count: 1, percent: 2 } },
        results_contact_coverage: "none",
      },
      "ohio",
      drift,
    );
    expectWholeTables(tables);
    expect(rowsOf(tables, "person_search")).toMatchObject([
      {
        _extra:
          '{"score":1,"total_contact_coverage":{"fax":{"count":1,"percent":2}},"results_contact_coverage":"none","results":{"1":7}}',
      },
    ]);
    expect(rowsOf(tables, "person_search_result")).toEqual([
      { search_id: "s-1", position: "0", service_pid: "p-1" },
    ]);
    expect(drift.entries().map(({ kind, path }) => `${kind} ${path}`)).toEqual([
      "unexpected_type results[]",
      "unexpected_type results_contact_coverage",
      "unknown_field score",
      "unknown_field total_contact_coverage.fax",
    ]);
  });
});

describe("an audience search", () => {
  test("becomes a row with the cause of its failure", () => {
    const drift = new DriftLog("GET /person-search/v0/search-jobs/{segment_id}");
    const tables = flattenAudienceSearch(audience, named, drift);
    expectWholeTables(tables);
    expect(drift.entries()).toEqual([]);
    expect(rowsOf(tables, "audience_search")).toEqual([
      {
        segment_id: "g-1",
        search_name: "nurses",
        query: "left-handed nurses",
        status: "failed",
        materialization_extent: "full",
        created_at: "2026-11-22T05:06:07.123456+00:00",
        updated_at: "2026-11-22T05:06:09.000001+00:00",
        full_criteria_tree: '{"node_type":"CRITERIA","criteria":"nurses","node_status":"FULL"}',
        error_criteria: '[{"criteria":"left-handed"}]',
        suggested_search: "nurses",
        total_count: "200",
        estimated_billable_count: "201",
        billable_count: "150",
        results_unlocked: "true",
        error_code: "search_criteria_failed",
        error_message: "Use another query.",
        _extra: null,
      },
    ]);
  });

  test("has its statistics as rows", () => {
    const tables = flattenAudienceSearch(audience, named, new DriftLog(""));
    expect(rowsOf(tables, "audience_search_coverage")).toEqual([
      { segment_id: "g-1", channel: "email", count: "100", percentage: "50", _extra: null },
      { segment_id: "g-1", channel: "phone", count: "67", percentage: "33.5", _extra: null },
      { segment_id: "g-1", channel: "address", count: "1", percentage: "0.5", _extra: null },
    ]);
    const rows = rowsOf(tables, "audience_search_distribution");
    expect(rows?.slice(0, 3)).toEqual([
      {
        segment_id: "g-1",
        distribution: "age",
        position: "0",
        label: "Under 18",
        count: "2",
        percentage: "1",
        _extra: null,
      },
      {
        segment_id: "g-1",
        distribution: "age",
        position: "1",
        label: "75+",
        count: "3",
        percentage: "1.5",
        _extra: null,
      },
      {
        segment_id: "g-1",
        distribution: "gender",
        position: "0",
        label: "Female",
        count: "4",
        percentage: "2",
        _extra: null,
      },
    ]);
    expect(rows?.length).toBe(9);
  });

  test("says nothing about the statistics before it has any", () => {
    const drift = new DriftLog("");
    const tables = flattenAudienceSearch({ ...audience, error: null, stats: null }, named, drift);
    expect(tables.map(({ table }) => table)).toEqual(["audience_search"]);
    expect(rowsOf(tables, "audience_search")).toMatchObject([{ error_code: null, error_message: null }]);
    expect(drift.entries()).toEqual([]);
  });

  test("keeps unknown and unexpected values at every level in _extra", () => {
    const drift = new DriftLog("");
    const sent = {
      segment_id: "g-1",
      priority: 3,
      error: { code: "new_code", hint: "later" },
      stats: { coverage: { fax: { count: 1 } }, distributions: { ethnicity: [{ label: "a" }] }, median: 4 },
    };
    const tables = flattenAudienceSearch(sent, named, drift);
    expectWholeTables(tables);
    expect(rowsOf(tables, "audience_search")).toMatchObject([
      {
        error_code: "new_code",
        _extra:
          '{"priority":3,"error":{"hint":"later"},"stats":{"median":4,"coverage":{"fax":{"count":1}},"distributions":{"ethnicity":[{"label":"a"}]}}}',
      },
    ]);
    expect(drift.entries().map(({ path }) => path)).toEqual([
      "error.hint",
      "priority",
      "stats.coverage.fax",
      "stats.distributions.ethnicity",
      "stats.median",
    ]);
  });

  test.each(["error", "stats"])("keeps %s of an unexpected type", (member) => {
    const drift = new DriftLog("");
    const tables = flattenAudienceSearch({ segment_id: "g-1", [member]: "odd" }, named, drift);
    expect(rowsOf(tables, "audience_search")).toMatchObject([
      { _extra: JSON.stringify({ [member]: "odd" }) },
    ]);
    expect(drift.entries()).toMatchObject([
      { kind: "unexpected_type", path: member, observedType: "string" },
    ]);
  });
});

describe("a contact job", () => {
  test("becomes a row, with what its pages charged", () => {
    const drift = new DriftLog("");
    const unlocked = { billable_count: "9", unlocked_at: "2026-11-22T05:07:00+00:00" };
    const job = flattenContactJob(contactJob, unlocked, drift);
    expectWholeTables([job]);
    expect(drift.entries()).toEqual([]);
    expect(rowsOf([job], "contact_job")).toEqual([
      {
        ...contactJob,
        ...unlocked,
        result_count: "12",
        total_matched: "13",
        results_unlocked: "true",
        _extra: null,
      },
    ]);
  });

  test("has its results as rows by position, the jacket whole and its known keys as columns", () => {
    const drift = new DriftLog("");
    const page = flattenContactResults([contactResult], { jobId: "j-1", offset: 200 }, drift);
    expectWholeTables([page]);
    expect(drift.entries()).toEqual([]);
    expect(rowsOf([page], "contact_job_result")).toEqual([
      {
        job_id: "j-1",
        position: "200",
        service_pid: "p-9",
        matched_job_title: "cfo",
        current_job_title: "CFO",
        matched_company_name: "Northwind",
        matched_company_domain: "northwind.example",
        matched_company_linkedin_url: "https://l.example/n",
        matched_naics_code: "622110",
        full_name: "Ana Núñez",
        linkedin_url: "https://l.example/ana",
        jacket: '{"full_name":"Ana Núñez","linkedin_url":"https://l.example/ana","shoe_size":38.5}',
        _extra: null,
      },
    ]);
  });

  test("has results with null or unexpected parts", () => {
    const drift = new DriftLog("");
    const results = [{ service_pid: "p-9", matched_company: "Northwind", jacket: null, rank: 1 }, null];
    const page = flattenContactResults(results, { jobId: "j-1", offset: 0 }, drift);
    expectWholeTables([page]);
    expect(rowsOf([page], "contact_job_result")).toMatchObject([
      {
        service_pid: "p-9",
        matched_company_name: null,
        jacket: null,
        _extra: '{"rank":1,"matched_company":"Northwind"}',
      },
    ]);
    expect(drift.entries().map(({ kind, path }) => `${kind} ${path}`)).toEqual([
      "unexpected_type results[]",
      "unexpected_type results[].matched_company",
      "unknown_field results[].rank",
    ]);
  });
});
