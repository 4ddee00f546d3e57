import { describe, expect, test } from "vitest";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { configOf, repeats, startWorld, unaccountedRows } from "../world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";

describe("caps", () => {
  test("end a run as limited, and the next one resumes", async () => {
    const world = await startWorld({ rows: 200, config: configOf(enrichOnly) });
    const first = await world.run({ maxRecords: 60 });
    expect(first).toMatchObject({ status: "limited" });
    expect(exitCodeOf(first, null)).toBe(0);
    expect(first.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 60 });
    expect(first.jobs.map(unaccountedRows)).toEqual([0]);
    expect(first.jobs[0]?.records_remaining).toBeGreaterThan(100);

    world.configure(configOf(enrichOnly.replace(" }", ", max_records_per_run: 60 }")));
    const second = await world.run({ maxRecords: 100 });
    expect(second.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "max_records_per_run",
      records_sent: 60,
    });

    world.configure(configOf(enrichOnly));
    const third = await world.run();
    expect(third.status).toBe("succeeded");
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
    expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe(
      await world.value("SELECT count(*) - (SELECT count(*) FROM person_data.reject) FROM crm.customers"),
    );
  });

  test("take the rows first that order_by puts first", async () => {
    const world = await startWorld({
      rows: 200,
      config: configOf(enrichOnly).replace("key: id", "key: id\n    order_by: id DESC"),
    });
    await world.run({ maxRecords: 20 });
    expect(
      Number(await world.value("SELECT min(source_key::int) FROM person_data.enrichment")),
    ).toBeGreaterThan(170);
  });

  test("of zero send nothing", async () => {
    const world = await startWorld({ rows: 30, config: configOf(enrichOnly) });
    const report = await world.run({ maxRecords: 0 });
    expect(report.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "max_records",
      records_sent: 0,
      requests: 0,
    });
    expect(report.jobs.map(unaccountedRows)).toEqual([0]);
  });
});

describe("the user's confirmation", () => {
  const config = configOf(enrichOnly, "confirm_above: { records: 50, ratio: 0.2 }");

  test("is required when a later run has unusually many due rows", async () => {
    const world = await startWorld({ rows: 300, config });
    expect((await world.run()).status).toBe("succeeded");
    await world.rows("UPDATE crm.customers SET street = '1 Main St' WHERE id <= 200");
    const stopped = await world.run();
    expect(exitCodeOf(stopped, null)).toBe(3);
    expect(stopped.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "confirmation",
      records_sent: 0,
      requests: 0,
      error: { code: "confirmation" },
    });
    expect(stopped.jobs[0]?.error?.message).toMatch(
      /^enrich_customers: more is due than confirm_above allows: \d+ rows, \d\d % of the input; .* run again with --yes to confirm\.$/,
    );
    expect(stopped.jobs.map(unaccountedRows)).toEqual([0]);

    const asked: string[] = [];
    const answer = (word: boolean) => async (question: string) => {
      asked.push(question);
      return word;
    };
    expect((await world.run({ confirm: answer(false) })).jobs[0]).toMatchObject({
      limited_by: "confirmation",
      records_sent: 0,
    });
    expect(asked[0]).toMatch(/Continue\?$/);
    const agreed = await world.run({ confirm: answer(true) });
    expect(agreed.jobs[0]?.status).toBe("succeeded");
    expect(agreed.jobs[0]?.records_sent).toBeGreaterThan(150);
    expect(asked).toHaveLength(2);
  });

  test("given by --yes holds for the runs that resume after a limit", async () => {
    const world = await startWorld({ rows: 300, config });
    await world.run();
    await world.rows("UPDATE crm.customers SET street = '1 Main St'");
    const first = await world.run({ yes: true, maxRecords: 100 });
    expect(first.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 100 });
    const second = await world.run({ maxRecords: 100 });
    expect(second.jobs[0]).toMatchObject({ limited_by: "max_records", records_sent: 100 });
    expect((await world.run()).status).toBe("succeeded");
  });

  test("is required for --resend, which sends every record again", async () => {
    const world = await startWorld({ rows: 40, config });
    const sent = (await world.run()).jobs[0]?.records_sent;
    expect((await world.run({ resend: true })).jobs[0]).toMatchObject({
      limited_by: "confirmation",
      records_sent: 0,
    });
    const again = await world.run({ resend: true, yes: true });
    expect(again.jobs[0]).toMatchObject({ status: "succeeded", records_sent: sent });
    expect(again.jobs.map(unaccountedRows)).toEqual([0]);
    expect(
      await world.value(
        "SELECT count(*) FROM person_data.enrichment WHERE _run_id = $$" + again.run_id + "$$",
      ),
    ).not.toBe("0");
  });
});

describe("changed parameters", () => {
  const changed = configOf(enrichOnly.replace(" }", ", return_fields: [age, phones] }"));

  test("stop the run with count and cost until the user confirms", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    await world.run();
    const answered = Number(await world.value("SELECT count(*) FROM person_data.enrichment"));
    world.configure(changed);
    const stopped = await world.run({ yes: true });
    expect(exitCodeOf(stopped, null)).toBe(3);
    expect(stopped.jobs[0]).toMatchObject({
      status: "limited",
      limited_by: "parameters_changed",
      requests: 0,
    });
    expect(stopped.jobs[0]?.error?.message).toContain(
      `the mapping or the request parameters have changed since ${answered} rows were answered; nothing was sent`,
    );
    expect(stopped.jobs.map(unaccountedRows)).toEqual([0]);
  });

  test("that are kept cost nothing", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    await world.run();
    world.configure(changed);
    expect((await world.run({ acceptParameters: "keep" })).jobs[0]).toMatchObject({
      status: "succeeded",
      records_sent: 0,
    });
    expect((await world.run()).jobs[0]).toMatchObject({ status: "succeeded", records_sent: 0 });
  });

  test("that are bought again send every record, once", async () => {
    const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
    const sent = (await world.run()).jobs[0]?.records_sent;
    world.configure(changed);
    expect((await world.run({ acceptParameters: "resend" })).jobs[0]).toMatchObject({
      status: "succeeded",
      records_sent: sent,
    });
    expect((await world.run()).jobs[0]).toMatchObject({ status: "succeeded", records_sent: 0 });
  });
});
