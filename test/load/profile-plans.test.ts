import { afterAll, beforeAll, expect, test } from "vitest";
import { renewInputViews } from "../../src/load/db/input-views.ts";
import type { KeyType } from "../../src/schemas/views/link-input.ts";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";

/** Enough that scans would cost more. */
const PEOPLE = 2000;

/** Types of a key, the text of key `n`, and a condition for the row with the key of n = 42. */
const cases: readonly (readonly [types: readonly KeyType[], text: string, condition: string])[] = [
  [["integer"], "n::text", "k0 = 42"],
  [["text"], "'K-' || n", "k0 = 'K-42'"],
  [["uuid"], "lpad(n::text, 32, '0')::uuid::text", "k0 = '00000000-0000-0000-0000-000000000042'"],
  [["date"], "(date '2020-01-01' + n::int)::text", "k0 = date '2020-02-12'"],
  [
    ["timestamp"],
    "(timestamp '2020-01-01' + n * interval '1 hour')::text",
    "k0 = timestamp '2020-01-02 18:00:00'",
  ],
  [
    ["timestamptz"],
    "(timestamptz '2020-01-01 00:00:00+00' + n * interval '1 hour')::text",
    "k0 = timestamptz '2020-01-02 19:00:00+01'",
  ],
  [["integer", "text"], "json_build_array((n % 7)::text, 'K-' || n)::text", "k0 = 0 AND k1 = 'K-42'"],
  [["text", "text"], "json_build_array('a', 'K-' || n)::text", "k0 = 'a' AND k1 = 'K-42'"],
];

const inputOf = (types: readonly KeyType[]) => `by_${types.join("_")}`;

let context: PostgresContext;
afterAll(() => context.close());
beforeAll(async () => {
  context = await openPostgresContext();
  const people = `generate_series(1, ${PEOPLE}) AS n`;
  const lists = `${people}, generate_series(0, 3) AS position`;
  for (const [types, text] of cases)
    for (const table of ["resolution", "enrichment"])
      await context.sql(`INSERT INTO person_data.${table} (job, source, source_key, is_match, is_present, service_pid, match_score, last_matched_at, _run_id)
        SELECT '${table}', '${inputOf(types)}', ${text}, true, true, 'p-' || n, 80, now(), '' FROM ${people}`);
  await context.sql(`INSERT INTO person_data.person (service_pid, full_name, _record_synced_at, _run_id) SELECT 'p-' || n, 'Ann', now(), '' FROM ${people};
    INSERT INTO person_data.person_email (service_pid, email_type, position, email_address, _run_id) SELECT 'p-' || n, 'personal', position, 'ann' || n || position || '@x.example', '' FROM ${lists};
    INSERT INTO person_data.email_validation (email_address, is_match, email_validation_status, _run_id) SELECT 'ann' || n || '3@x.example', true, 'valid', '' FROM ${people};
    INSERT INTO person_data.person_phone (service_pid, position, phone_number, _run_id) SELECT 'p-' || n, position, '+1', '' FROM ${lists};
    INSERT INTO person_data.person_address (service_pid, position, address_city, _run_id) SELECT 'p-' || n, position, 'Peoria', '' FROM ${lists};
    INSERT INTO person_data.person_work_experience (service_pid, position, work_status, work_title, _run_id) SELECT 'p-' || n, position, 'current', 'Clerk ' || position, '' FROM ${lists};
    INSERT INTO person_data.death_signal (obituary_id, service_pid, date_of_death, signal_metadata, _run_id) SELECT 'o-' || n, 'p-' || n, '2026-10-01', '{}', '' FROM ${people};
    INSERT INTO person_data.segment_death_signal (segment_id, obituary_id, service_pid, first_seen_at, is_present, _run_id) SELECT 's', 'o-' || n, 'p-' || n, now(), true, '' FROM ${people};
    INSERT INTO person_data.person_history (service_pid, field_group, valid_from, valid_to, content, _run_id) SELECT 'p-' || n, 'phones', now(), '2026-11-01 00:00:00+00', '[]', '' FROM ${people}`);
  // Of the other two, it is part of creating the views.
  const others = [
    "person",
    "person_email",
    "email_validation",
    "person_phone",
    "person_address",
    "person_work_experience",
  ];
  await context.sql(
    `ANALYZE ${[...others, "death_signal", "segment_death_signal", "person_history"].map((name) => `person_data.${name}`).join(", ")}`,
  );
  for (const [types] of cases)
    await renewInputViews(context.warehouse.db, {
      input: inputOf(types),
      key: types.map((type, i) => ({ name: `k${i}`, type })),
    });
}, 120_000);

test.each(cases)(
  "a profile is found by its key of type %s with indexes alone",
  async (types, _, condition) => {
    const query = `SELECT * FROM person_data.profile_${inputOf(types)} WHERE ${condition}`;
    const plan = (await context.sql(`EXPLAIN ${query}`)).map((row) => row["QUERY PLAN"] ?? "");
    expect(plan.filter((line) => /Seq Scan|Gather/u.test(line))).toEqual([]);
    const index = types.join() === "text" ? "pkey" : `by_${types.join("_")}`;
    for (const table of ["resolution", "enrichment"])
      expect(
        plan.filter((line) => line.includes(`Scan using ${table}_${index} on ${table}  (`)),
      ).toHaveLength(1);
    expect(await context.sql(query)).toMatchObject([
      {
        service_pid: "p-42",
        full_name: "Ann",
        email_address: "ann423@x.example",
        email_validation_status: "valid",
        work_title: "Clerk 0",
        address_city: "Peoria",
        is_deceased: "true",
        date_of_death: "2026-10-01",
        last_changed_at: "2026-11-01 00:00:00+00",
      },
    ]);
  },
);
