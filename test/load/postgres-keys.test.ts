import type { Client } from "pg";
import { expect, test } from "vitest";
import { tables } from "../../src/schemas/registry.ts";
import { connect, freshDatabase, open, SCHEMAS } from "./bare-database.ts";

/** Constraints of a kind (`p`, `f`, `c`) as `table: definition`. */
async function constraintsOf(client: Client, kind: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ text: string }>(
    `SELECT c.relname || ': ' || replace(pg_get_constraintdef(k.oid), 'person_data.', '') AS text
    FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY($1) AND k.contype = $2 ORDER BY k.conname`,
    [SCHEMAS, kind],
  );
  return rows.map(({ text }) => text);
}

async function migratedDatabase(): Promise<{ readonly client: Client; readonly url: string }> {
  const { url } = await freshDatabase();
  await open(url).migrate();
  return { client: await connect(url), url };
}

const checkedKeys = [
  "audience_search_coverage: FOREIGN KEY (segment_id) REFERENCES audience_search(segment_id) DEFERRABLE INITIALLY DEFERRED",
  "audience_search_distribution: FOREIGN KEY (segment_id) REFERENCES audience_search(segment_id) DEFERRABLE INITIALLY DEFERRED",
  "contact_job_result: FOREIGN KEY (job_id) REFERENCES contact_job(job_id) DEFERRABLE INITIALLY DEFERRED",
  "person_search_coverage: FOREIGN KEY (search_id) REFERENCES person_search(search_id) DEFERRABLE INITIALLY DEFERRED",
  "person_search_result: FOREIGN KEY (search_id) REFERENCES person_search(search_id) DEFERRABLE INITIALLY DEFERRED",
  "segment_death_signal: FOREIGN KEY (service_pid, obituary_id) REFERENCES death_signal(service_pid, obituary_id) DEFERRABLE INITIALLY DEFERRED",
];

const declaredKeys = [
  "audience_search_member: FOREIGN KEY (segment_id) REFERENCES audience_search(segment_id) NOT ENFORCED",
  ...["address", "education_experience", "email", "phone", "relative", "work_experience"].map(
    (list) => `person_${list}: FOREIGN KEY (service_pid) REFERENCES person(service_pid) NOT ENFORCED`,
  ),
];

test("every table has a primary key, and what always has its row a foreign key to one", async () => {
  const { client } = await migratedDatabase();
  const keyed = new Set((await constraintsOf(client, "p")).map((text) => text.split(":")[0]));
  expect(tables.filter(({ name }) => !keyed.has(name))).toEqual([]);
  // Postgres before 18 can't declare a key that it doesn't enforce.
  const { rows } = await client.query(
    "SELECT current_setting('server_version_num')::int / 10000 >= 18 AS is_new",
  );
  const expected = rows[0].is_new === "true" ? [...checkedKeys, ...declaredKeys] : checkedKeys;
  expect((await constraintsOf(client, "f")).toSorted()).toEqual(expected.toSorted());
});

test("closed lists of our own are checked, and no others", async () => {
  const { client } = await migratedDatabase();
  const found = await constraintsOf(client, "c");
  expect(found.filter((text) => text.includes("NOT VALID"))).toEqual([]);
  const listed = found.map((text) => text.replaceAll(/^(\w+): CHECK \(\(+(\w+) = ANY.*$/gu, "$1.$2"));
  expect(listed.toSorted()).toEqual([
    "api_call.billed_per",
    "erasure_subject.kind",
    "person_address.first_seen_precision",
    "person_address.last_seen_precision",
    "person_address.purchase_precision",
    "person_education_experience.education_end_precision",
    "person_education_experience.education_start_precision",
    "person_email.email_type",
    "person_search_coverage.scope",
    "person_work_experience.work_end_precision",
    "person_work_experience.work_start_precision",
    "reject.stage",
    "schema_drift.kind",
    "segment_membership_history.valid_from_basis",
    "sync_run.status",
  ]);
  const insert = (basis: string) =>
    client.query(`INSERT INTO person_data.segment_membership_history (segment_id, service_pid, valid_from, valid_from_basis, _run_id)
      VALUES ('s', 'p', now(), '${basis}', '')`);
  await expect(insert("guessed")).rejects.toMatchObject({ code: "23514" });
  await insert("observed");
});

test("an upgrade leaves a table whose stored rows break a constraint without it", async () => {
  const { client, url } = await migratedDatabase();
  await client.query(`ALTER TABLE person_data.reject DROP CONSTRAINT reject_stage_check;
    ALTER TABLE person_data.contact_job_result DROP CONSTRAINT contact_job_result_contact_job_fkey;
    INSERT INTO person_data.reject (reject_id, run_id, job, source, stage, code, message, created_at)
      VALUES (gen_random_uuid(), 'r', 'j', 's', 'old', 'c', 'm', now());
    INSERT INTO person_data.contact_job_result (job_id, position, _run_id) VALUES ('gone', 0, '');
    DELETE FROM person_data_state.schema_migration WHERE name = '0014-keys-and-checks'`);
  expect(await open(url).migrate()).toEqual(["0014-keys-and-checks"]);
  const left = [...(await constraintsOf(client, "c")), ...(await constraintsOf(client, "f"))];
  expect(left.filter((text) => /^reject:|^contact_job_result:/u.test(text))).toEqual([]);
});
