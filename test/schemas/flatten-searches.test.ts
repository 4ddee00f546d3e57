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

/** Columns that flattening fills: all but those of the run and of the reading of members. */
function filledColumns(name: string): readonly string[] {
  const unfilled = ["_synced_at", "_run_id"];
  if (name === "audience_search") unfilled.push("unlocked_at", "members_stored_at");
  return tableNamed(name).columns.flatMap((column) => (unfilled.includes(column.name) ? [] : [column.name]));
}

/** Flattens something; every row must have all columns of its table. Drift as `kind path`. */
function flatten(work: (drift: DriftLog) => TableRows | readonly TableRows[]) {
  const drift = new DriftLog("POST /person-search");
  const tables = [work(drift)].flat();
  for (const { table, columns, rows } of tables) {
    expect(columns.toSorted()).toEqual(filledColumns(table).toSorted());
    for (const row of rows) expect(row.length).toBe(columns.length);
  }
  return {
    tables,
    rows: (name: string) => rowsOf(tables, name),
    drift: drift.entries().map(({ kind, path }) => `${kind} ${path}`),
  };
}

/** Values as text, JSON for objects; instants in the form of cells. */
const cells = (object: object) =>
  Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name,
      value === null
        ? null
        : typeof value === "object"
          ? JSON.stringify(value)
          : String(value).replace(/(T.*)Z$/u, "$1+00:00"),
    ]),
  );

const readSearch = (sent: object) => flatten((drift) => flattenPersonSearch({ ...sent }, "ohio", drift));
const readAudience = (sent: object) => flatten((drift) => flattenAudienceSearch({ ...sent }, named, drift));
const readResults = (results: readonly unknown[], offset = 0) =>
  flatten((drift) => flattenContactResults(results, { jobId: "j-1", offset }, drift));

describe("a person search", () => {
  test("becomes a row, its coverage by scope and channel, and its PIDs by position", () => {
    const { rows, drift } = readSearch(search);
    expect(drift).toEqual([]);
    const {
      results: _,
      total_contact_coverage: total,
      results_contact_coverage: results,
      ...fields
    } = search;
    expect(rows("person_search")).toEqual([{ ...cells(fields), search_name: "ohio", _extra: null }]);
    const coverage = (scope: string, channels: object) =>
      Object.entries(channels).map(([channel, counts]) => {
        return { search_id: "s-1", scope, channel, ...cells(counts), _extra: null };
      });
    expect(rows("person_search_coverage")).toEqual([
      ...coverage("total", total),
      ...coverage("results", results),
    ]);
    expect(rows("person_search_result")).toEqual([
      { search_id: "s-1", position: "0", service_pid: "p-1" },
      { search_id: "s-1", position: "1", service_pid: "p-2" },
    ]);
  });

  test("keeps what isn't declared in _extra, and records it as drift", () => {
    const { rows, drift } = readSearch({
      ...search,
      results: ["p-1", 7],
      score: 1,
      total_contact_coverage: { fax: { count: 1, percent: 2 } },
      results_contact_coverage: "none",
    });
    expect(rows("person_search")).toMatchObject([
      {
        _extra:
          '{"score":1,"total_contact_coverage":{"fax":{"count":1,"percent":2}},"results_contact_coverage":"none","results":{"1":7}}',
      },
    ]);
    expect(rows("person_search_result")).toEqual([{ search_id: "s-1", position: "0", service_pid: "p-1" }]);
    expect(drift).toEqual([
      "unexpected_type results[]",
      "unexpected_type results_contact_coverage",
      "unknown_field score",
      "unknown_field total_contact_coverage.fax",
    ]);
  });
});

describe("an audience search", () => {
  test("becomes a row with the cause of its failure, and its statistics rows", () => {
    const { rows, drift } = readAudience(audience);
    expect(drift).toEqual([]);
    const { error, stats, worker: _, ...fields } = audience;
    const { code: error_code, message: error_message } = error;
    expect(rows("audience_search")).toEqual([
      { ...cells(fields), ...named, error_code, error_message, _extra: null },
    ]);
    expect(rows("audience_search_coverage")).toEqual(
      Object.entries(stats.coverage).map(([channel, counts]) => {
        return { segment_id: "g-1", channel, ...cells(counts), _extra: null };
      }),
    );
    expect(rows("audience_search_distribution")).toEqual(
      Object.entries(stats.distributions).flatMap(([distribution, buckets]) =>
        buckets.map((bucket, i) => {
          return { segment_id: "g-1", distribution, position: String(i), ...cells(bucket), _extra: null };
        }),
      ),
    );
  });

  test("keeps an error that can be retried, against the interface", () => {
    const { rows, drift } = readAudience({ ...audience, error: { ...audience.error, retryable: true } });
    expect(rows("audience_search")).toMatchObject([{ _extra: '{"error":{"retryable":true}}' }]);
    expect(drift).toEqual(["unknown_field error.retryable"]);
  });

  test("says nothing about the statistics before it has any", () => {
    const { tables, rows, drift } = readAudience({ ...audience, error: null, stats: null });
    expect(tables.map(({ table }) => table)).toEqual(["audience_search"]);
    expect(rows("audience_search")).toMatchObject([{ error_code: null, error_message: null }]);
    expect(drift).toEqual([]);
  });

  test("keeps unknown and unexpected values at every level in _extra", () => {
    const { rows, drift } = readAudience({
      segment_id: "g-1",
      priority: 3,
      error: { code: "new_code", hint: "later" },
      stats: { coverage: { fax: { count: 1 } }, distributions: { ethnicity: [{ label: "a" }] }, median: 4 },
    });
    expect(rows("audience_search")).toMatchObject([
      {
        error_code: "new_code",
        _extra:
          '{"priority":3,"error":{"hint":"later"},"stats":{"median":4,"coverage":{"fax":{"count":1}},"distributions":{"ethnicity":[{"label":"a"}]}}}',
      },
    ]);
    expect(drift).toEqual([
      "unknown_field error.hint",
      "unknown_field priority",
      "unknown_field stats.coverage.fax",
      "unknown_field stats.distributions.ethnicity",
      "unknown_field stats.median",
    ]);
  });

  test.each(["error", "stats"])("keeps %s of an unexpected type", (member) => {
    const { rows, drift } = readAudience({ segment_id: "g-1", [member]: "odd" });
    expect(rows("audience_search")).toMatchObject([{ _extra: JSON.stringify({ [member]: "odd" }) }]);
    expect(drift).toEqual([`unexpected_type ${member}`]);
  });
});

describe("a contact job", () => {
  test("becomes a row, with what its pages charged", () => {
    const unlocked = { billable_count: "9", unlocked_at: "2026-11-22T05:07:00+00:00" };
    const { rows, drift } = flatten((log) => flattenContactJob(contactJob, unlocked, log));
    expect(drift).toEqual([]);
    expect(rows("contact_job")).toEqual([{ ...cells(contactJob), ...unlocked, _extra: null }]);
  });

  test("has its results as rows by position, the jacket whole and its known keys as columns", () => {
    const { rows, drift } = readResults([contactResult], 200);
    expect(drift).toEqual([]);
    const { matched_company: _, ...fields } = contactResult;
    expect(rows("contact_job_result")).toEqual([
      {
        ...cells(fields),
        job_id: "j-1",
        position: "200",
        matched_company_name: "Northwind",
        matched_company_domain: "northwind.example",
        matched_company_linkedin_url: "https://l.example/n",
        full_name: "Ana Núñez",
        linkedin_url: "https://l.example/ana",
        _extra: null,
      },
    ]);
  });

  test("has results with null or unexpected parts", () => {
    const { rows, drift } = readResults([
      { service_pid: "p-9", matched_company: "Northwind", jacket: null, rank: 1 },
      null,
    ]);
    expect(rows("contact_job_result")).toMatchObject([
      {
        service_pid: "p-9",
        matched_company_name: null,
        jacket: null,
        _extra: '{"rank":1,"matched_company":"Northwind"}',
      },
    ]);
    expect(drift).toEqual([
      "unexpected_type matched_company",
      "unknown_field rank",
      "unexpected_type results[]",
    ]);
  });
});
