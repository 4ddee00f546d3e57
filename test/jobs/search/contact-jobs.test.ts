import { describe, expect, test } from "vitest";
import type { RunRequest } from "../../../src/jobs/services.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";
import { callsOf } from "./audience-world.ts";

const ID = "123e4567-e89b-42d3-a456-426614174000";
const UNLOCK = "POST /person-search/v0/contact-jobs/{job_id}/results";
const PAGE = "GET /person-search/v0/contact-jobs/{job_id}/results";

const contactsOf = (unlock = "{ max_billable: 5000 }", ids = `[${ID}]`, top = "") =>
  configOf(
    `
  contacts: { type: contact_jobs, job_ids: ${ids}, unlock: ${unlock}, deadline: 20s }`,
    top,
  );

/** World with a contact job of about 500 nurses. */
async function startContacts(
  config = contactsOf(),
  job: object = {},
  more: Partial<Parameters<typeof startWorld>[0]> = {},
): Promise<World> {
  const world = await startWorld({ rows: 0, people: 20_000, config, ...more });
  await world.control("/contact_jobs", {
    job_id: ID,
    job_type: "contact_prospect",
    titles: ["nurse"],
    ...job,
  });
  return world;
}
const runOnce = async (world: World, request: Partial<RunRequest> = {}) =>
  jobOf(await world.run(request), "contacts");

/** The sandbox's contact job. */
async function contactOfService(
  world: World,
): Promise<{ readonly rows: number; readonly billable: number | null }> {
  const { contact_jobs: jobs } = await world.control<{
    contact_jobs: { rows: number; billable: number | null }[];
  }>("/searches");
  return jobs[0] ?? { rows: 0, billable: null };
}
const stored = (world: World) =>
  world.rows(
    `SELECT count(*) AS rows, count(DISTINCT service_pid) AS people, max(position) + 1 AS places, count(jacket) AS jackets,
      count(*) FILTER (WHERE full_name IS NOT NULL) > 0 AS has_names FROM person_data.contact_job_result`,
  );
const charge = (world: World) =>
  world.rows(
    `SELECT (SELECT billable_count FROM person_data.contact_job) AS billable_count,
      (SELECT sum(records_matched) FROM person_data_ops.api_call WHERE budget = 'unlock') AS ledger,
      (SELECT sum(records_reserved) FROM person_data_state.budget_use WHERE budget = 'unlock' AND period = 'month') AS budget,
      (SELECT count(*) FROM person_data_ops.api_call WHERE budget = 'unlock' AND records_in_doubt > 0) AS in_doubt`,
  );

const attempts = async (world: World) =>
  (
    await world.rows(`SELECT count(*) AS calls, count(*) FILTER (WHERE http_status IS NULL) AS unanswered,
      count(*) FILTER (WHERE is_sent IS NOT TRUE) AS not_sent FROM person_data_ops.api_call`)
  )[0];

describe.each(["unlock", "page"])("a contact job, billed by %s,", (billing) => {
  test("is waited for, unlocked and stored with its jackets, and charged as the service says", async () => {
    const world = await startContacts(contactsOf(), { billing });
    const first = await runOnce(world);
    expect(first).toMatchObject({ status: "succeeded", records_read: 1, records_sent: 1 });
    expect(await attempts(world)).toEqual({ calls: String(first.requests), unanswered: "0", not_sent: "0" });
    const { rows, billable } = await contactOfService(world);
    expect(rows).toBeGreaterThan(400);
    const all = String(rows);
    expect(await stored(world)).toEqual([
      { rows: all, people: all, places: all, jackets: all, has_names: "t" },
    ]);
    const billed = String(billable);
    expect(await charge(world)).toEqual([
      { billable_count: billed, ledger: billed, budget: billed, in_doubt: "0" },
    ]);
    const state =
      "SELECT concat_ws(' ', job_id, job_type, status, result_count, results_unlocked, unlocked_at > created_at) FROM person_data.contact_job";
    expect(await world.value(state)).toBe(`${ID} contact_prospect completed ${all} t t`);
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_unchanged: 1, requests: 0 });
  });

  test("whose answers are lost is charged once, and the ledger never holds less than the charge", async () => {
    const world = await startContacts(
      contactsOf(),
      { billing },
      {
        faults: [
          { fault: "reply_lost", rate: 1, endpoint: UNLOCK, from: 1, to: 2 },
          { fault: "reply_lost", rate: 0.3, endpoint: PAGE },
        ],
      },
    );
    const lost = await runOnce(world);
    expect(lost).toMatchObject({ status: "succeeded" });
    const { rows, billable } = await contactOfService(world);
    expect((await stored(world))[0]?.["rows"]).toBe(String(rows));
    expect(await attempts(world)).toMatchObject({ calls: String(lost.requests), not_sent: "0" });
    const [{ ledger = null } = {}] = await charge(world);
    expect(Number(ledger)).toBeGreaterThanOrEqual(billable ?? 0);
    expect(Number(ledger)).toBeLessThanOrEqual(rows);
  });

  test("without credits keeps what it has, and the next run resumes", async () => {
    const world = await startContacts(contactsOf(), { billing });
    await world.control("/capacity", { records: 250, code: "insufficient_credits" });
    expect(await runOnce(world)).toMatchObject({ status: "limited", limited_by: "credits" });
    const kept = billing === "page" ? "200" : "0";
    expect((await stored(world))[0]?.["rows"]).toBe(kept);
    const before = await callsOf(world, PAGE);
    await world.control("/capacity", { records: null });
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    const { rows, billable } = await contactOfService(world);
    expect((await stored(world))[0]?.["rows"]).toBe(String(rows));
    const billed = String(billable);
    expect(await charge(world)).toEqual([
      { billable_count: billed, ledger: billed, budget: billed, in_doubt: "0" },
    ]);
    // The first page is read by the unlock.
    const pages = Math.ceil(rows / 100);
    expect((await callsOf(world, PAGE))[200]).toBe(
      (before[200] ?? 0) + (billing === "page" ? pages - 2 : pages - 1),
    );
  });
});

describe("a contact job", () => {
  test("that the service doesn't have fails, and the others are stored; none is unlocked by default", async () => {
    const other = ID.replace("1", "2");
    const world = await startContacts(contactsOf("never", `[${other}, ${ID}]`));
    expect(await runOnce(world)).toMatchObject({ status: "failed", error: { code: "search_gone" } });
    expect(await world.value("SELECT string_agg(job_id, ',') FROM person_data.contact_job")).toBe(ID);
    world.configure(contactsOf("never"));
    expect(await callsOf(world, UNLOCK)).toEqual({});
    expect(await world.value("SELECT result_count > 0 FROM person_data.contact_job")).toBe("t");
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
  });

  test("that failed is stored with its cause and fails each run", async () => {
    const world = await startContacts(contactsOf(), { failure: "worker_lost" });
    const failed = { status: "failed", error: { code: "search_failed" } };
    expect(await runOnce(world)).toMatchObject(failed);
    expect(await runOnce(world)).toMatchObject({ ...failed, requests: 0 });
    expect(await world.rows("SELECT status, error_code, message FROM person_data.contact_job")).toEqual([
      { status: "failed", error_code: "worker_lost", message: "The job failed." },
    ]);
  });

  test("of a query is found, and IDs that are none are left out", async () => {
    const world = await startContacts(contactsOf("never", "{ sql: select id as job_id from crm.jobs }"), {});
    await world.rows(
      `CREATE TABLE crm.jobs (id text); INSERT INTO crm.jobs VALUES ('${ID.toUpperCase()}'), ('${ID}'), ('x'), (NULL)`,
    );
    expect(await runOnce(world)).toMatchObject({
      status: "failed",
      records_read: 2,
      records_sent: 1,
      records_rejected_before_sending: 1,
      error: { code: "bad_job_id" },
    });
    expect(await world.value("SELECT string_agg(job_id, ',') FROM person_data.contact_job")).toBe(ID);
    const rejects =
      "SELECT source, source_key, stage, code, resolved_at IS NULL AS is_open FROM person_data.reject";
    const reject = { source: "contacts", source_key: "x", stage: "input", code: "bad_job_id" };
    expect(await world.rows(rejects)).toEqual([{ ...reject, is_open: "t" }]);
    await world.rows("DELETE FROM crm.jobs WHERE id = 'x'");
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_rejected: 0 });
    expect(await world.rows(rejects)).toEqual([{ ...reject, is_open: "f" }]);
  });
});
