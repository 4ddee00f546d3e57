import { describe, expect, it } from "vitest";
import { BASE_DAY } from "../src/population/calendar.ts";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, control, enrich, people, sandboxFor, today } from "./support.ts";

const record = (index: number, id = "1") => ({ record_id: id, service_pid: people.pidOf(index, today) });
const contents = async (sandbox: Sandbox) => (await control(sandbox, "/ledger"))["contents"];

const sums = (requests: number, records: number, matched: number, billed: number, statuses: object) => {
  return { requests, records, matched, billed, statuses, faults: {} };
};

describe("the ledger", () => {
  it("sums requests, records, matches, charges and statuses by endpoint", async () => {
    const sandbox = await sandboxFor();
    const email = [1, 2, 3, 4].flatMap((index) => people.contacts.personalEmails(index))[0] ?? "";
    await enrich(sandbox, [record(1), { record_id: "2", emails: ["nobody@elsewhere.example"] }]);
    await call(sandbox, "/v2/enrich", { records: 1 });
    await call(sandbox, "/v2/validate_emails", { records: [email, "nobody@elsewhere.example"] });
    await call(sandbox, "/nowhere/at/all");
    const ledger = await control(sandbox, "/ledger");
    expect(ledger["endpoints"]).toEqual({
      "POST /v2/enrich": sums(2, 2, 1, 1, { 200: 1, 422: 1 }),
      "POST /v2/validate_emails": sums(1, 2, 1, 2, { 200: 1 }),
      other: sums(1, 0, 0, 0, { 404: 1 }),
    });
    expect(ledger["requests"]).toBe(4);
    expect(ledger["recent"]).toHaveLength(4);
  });

  it("counts how often each content was received and billed, regardless of its record_id", async () => {
    const sandbox = await sandboxFor();
    const stranger = { record_id: "9", emails: ["nobody@elsewhere.example"] };
    await enrich(sandbox, [record(1, "a"), record(2, "b"), stranger]);
    await enrich(sandbox, [record(1, "c"), record(1, "d"), stranger]);
    expect(await contents(sandbox)).toEqual({
      distinct_records: 3,
      received_more_than_once: 2,
      billed_once: 1,
      billed_more_than_once: 1,
      billed_again: 2,
      most_times_billed: 3,
    });
  });
});

describe("capacity", () => {
  it("refuses what the plan can't cover, and decreases by what is billed", async () => {
    const sandbox = await sandboxFor();
    await control(sandbox, "/capacity", { records: 5 });
    const records = [1, 2, 3].map((index) => record(index, String(index)));
    expect((await call(sandbox, "/v2/enrich", { records })).status).toBe(200);
    const refused = await call(sandbox, "/v2/enrich", { records });
    expect([refused.status, refused.body.code, refused.body.details]).toEqual([
      402,
      "insufficient_record_capacity",
      {
        records_available: 2,
        allowance_records_available: 2,
        overage_records_available: 0,
        records_requested: 3,
      },
    ]);
    expect((await call(sandbox, "/v2/enrich", { records: records.slice(0, 2) })).status).toBe(200);
    expect((await call(sandbox, "/v2/enrich", { records: records.slice(0, 1) })).status).toBe(402);
    expect((await call(sandbox, "/v2/validate_emails", { records: ["a@b.example"] })).status).toBe(200);
    await control(sandbox, "/capacity", { records: 0, code: "insufficient_credits" });
    expect((await call(sandbox, "/v2/enrich", { records })).body.code).toBe("insufficient_credits");
    await control(sandbox, "/capacity", { records: null });
    expect((await call(sandbox, "/v2/enrich", { records })).status).toBe(200);
  });
});

describe("the other controls", () => {
  it("show the truth about a person, by the present or an old PID", async () => {
    const sandbox = await sandboxFor();
    const merged = Array.from({ length: 10_000 }, (_, i) => i).find(
      (i) => people.pidOf(i, BASE_DAY) !== people.pidOf(i, today),
    );
    for (const index of [3, merged ?? 0]) {
      const truth = await control(sandbox, `/person/${people.pidOf(index, BASE_DAY)}`);
      const [result] = await enrich(sandbox, [record(index)]);
      expect(truth["index"]).toBe(index);
      expect({ ...result, ...truth }).toEqual({ ...result, index });
    }
    expect((await call(sandbox, "/_sandbox/person/p-nobody")).status).toBe(404);
  });

  it("reset everything", async () => {
    const sandbox = await sandboxFor({ faults: [{ fault: "503", rate: 1, from: 1, to: 1 }] });
    expect((await call(sandbox, "/v2/enrich", { records: [] })).status).toBe(503);
    await control(sandbox, "/clock", { days: 3 });
    await control(sandbox, "/capacity", { records: 0 });
    await control(sandbox, "/faults", { faults: [{ fault: "500" }] });
    await control(sandbox, "/reset", {});
    expect(await control(sandbox, "")).toEqual({
      seed: 1,
      people: 10_000,
      now: expect.any(String),
      moved_days: 0,
      capacity: { recordsLeft: null, code: "insufficient_record_capacity" },
      faults: [{ fault: "503", rate: 1, from: 1, to: 1 }],
    });
    expect((await control(sandbox, "/ledger"))["requests"]).toBe(0);
    expect((await call(sandbox, "/v2/enrich", { records: [] })).status).toBe(503);
    expect((await call(sandbox, "/v2/enrich", { records: [] })).status).toBe(200);
  });

  it("refuse what a page in a browser can send to another site", async () => {
    const sandbox = await sandboxFor();
    const headers = { "content-type": "text/plain", origin: "https://evil.example" };
    expect((await call(sandbox, "/_sandbox/clock", { days: 30 }, { headers })).status).toBe(403);
    expect((await control(sandbox, "/"))["moved_days"]).toBe(0);
  });

  it("refuse unknown requests", async () => {
    const sandbox = await sandboxFor();
    const requests: readonly (readonly [string, (object | string)?])[] = [
      ["/nowhere"],
      ["/clock", { hours: 1 }],
      ["/clock", "{"],
      ["/faults", { faults: "nonsense" }],
      ["/faults", { faults: [{ fault: "nonsense" }] }],
      ["/capacity", { records: -1 }],
    ];
    const answers = requests.map(([path, body]) => call(sandbox, `/_sandbox${path}`, body));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([404, 400, 400, 400, 400, 400]);
    expect((await control(sandbox, "/faults", { faults: "a,b" }))["problems"]).toHaveLength(2);
  });
});
