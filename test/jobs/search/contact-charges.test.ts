import { describe, expect, onTestFinished, test } from "vitest";
import { send, startService } from "../../extract/scripted-service.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

const ID = "123e4567-e89b-42d3-a456-426614174000";
const contactsOf = (max: number, top = "") =>
  configOf(
    `
  contacts: { type: contact_jobs, job_ids: [${ID}], unlock: { max_billable: ${max} }, deadline: 60s }`,
    top,
  );
const budgetOf = (records: number) => contactsOf(5000, `budgets: { unlock: { per_month: ${records} } }`);

/** Answer to the page at an offset: what it charges, or a status; null for none. */
type Answer = {
  readonly items?: readonly unknown[];
  readonly total?: number;
  readonly charged?: number | null;
  readonly status?: number;
} | null;

/** A service with one contact job, whose answers are scripted. */
interface Odd {
  count: number;
  /** Called for each POST and GET of a page. */
  answer: (method: string, offset: number, call: number) => Answer;
}

/** World with a service that counts, charges or refuses in its own way. */
async function startOdd(odd: Odd, config: string): Promise<{ world: World; pages: string[] }> {
  const pages: string[] = [];
  const service = await startService(({ method, path }, response) => {
    const url = new URL(path, "http://service");
    if (!url.pathname.endsWith("/results")) {
      send(response, 200, {
        job_id: ID,
        status: "completed",
        result_count: odd.count,
        results_unlocked: false,
      });
      return;
    }
    const offset = Number(url.searchParams.get("offset"));
    pages.push(`${method} ${offset}`);
    const answer = odd.answer(method, offset, pages.length);
    if (answer === null) response.destroy();
    else if (answer.status !== undefined) send(response, answer.status, { message: "no" });
    else {
      const total = answer.total ?? odd.count;
      const returned = Math.max(0, Math.min(100, total - offset));
      const people = Array.from({ length: returned }, (_, i) => ({ service_pid: `p-${offset + i}` }));
      const billable = answer.charged === undefined ? returned : answer.charged;
      const results = [...(answer.items ?? []), ...people.slice(answer.items?.length ?? 0)];
      send(response, 200, { job_id: ID, results, total, returned, offset, billable_count: billable });
    }
  });
  onTestFinished(() => service.close());
  const world = await startWorld({ rows: 0, people: 100, config });
  world.serviceUrl = service.url;
  return { world, pages };
}
const runOnce = async (world: World) => jobOf(await world.run(), "contacts");
/** Results, charge in the table and in the ledger, and intents that are left. */
const stateOf = (world: World) =>
  world.rows(
    `SELECT (SELECT count(*) FROM person_data.contact_job_result) AS rows, (SELECT billable_count FROM person_data.contact_job) AS billed,
      (SELECT sum(records_matched) FROM person_data_ops.api_call WHERE budget = 'unlock') AS ledger,
      (SELECT sum(records_in_doubt) FROM person_data_ops.api_call WHERE budget = 'unlock') AS in_doubt,
      (SELECT cursor -> 'unlock' FROM person_data_ops.checkpoint) AS intent`,
  );
/** Charges each page, nothing the second time. */
function perPage(total: number) {
  const charged = new Set<number>();
  return (_method: string, offset: number): Answer => {
    const isNew = !charged.has(offset);
    charged.add(offset);
    return { total, ...(isNew ? {} : { charged: 0 }) };
  };
}

describe("a contact job", () => {
  test("rejects each paid item that can't be stored, once, and stores the others", async () => {
    const items = [null, 5, "x", []];
    const { world } = await startOdd(
      { count: 150, answer: (_method, offset) => (offset === 100 ? { items } : {}) },
      contactsOf(200),
    );
    const rejects =
      "SELECT count(*), count(*) FILTER (WHERE resolved_at IS NULL) AS open FROM person_data.reject";
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_rejected: 4 });
    expect((await stateOf(world))[0]).toMatchObject({ rows: "146" });
    expect(await world.rows(rejects)).toEqual([{ count: "4", open: "4" }]);
    expect(
      await world.value("SELECT min(message) FROM person_data.reject WHERE code = 'unusable_result'"),
    ).toBe(`Item 100 of \`results\` of the contact job ${ID} can't be stored.`);
    await world.run({ fullRefresh: true });
    expect(await world.rows(rejects)).toEqual([{ count: "4", open: "4" }]);
  });

  test("whose count grew above the ceiling while its unlock was refused is not unlocked", async () => {
    const odd: Odd = { count: 90, answer: () => ({ status: 409 }) };
    const { world, pages } = await startOdd(odd, contactsOf(100));
    odd.answer = (_method, _offset, call) => {
      if (call === 1) {
        odd.count = 150;
        return { status: 409 };
      }
      return {};
    };
    expect(await runOnce(world)).toMatchObject({ status: "limited", limited_by: "unlock_ceiling" });
    expect(pages).toEqual(["POST 0"]);
    expect(await stateOf(world)).toEqual([
      { rows: "0", billed: null, ledger: null, in_doubt: "0", intent: "null" },
    ]);
  });

  test("whose unlock is refused for the moment is unlocked once, and charged what it says", async () => {
    const { world, pages } = await startOdd(
      { count: 90, answer: (_method, _offset, call) => (call <= 2 ? { status: 409 } : { charged: 0 }) },
      contactsOf(100),
    );
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    expect(pages).toEqual(["POST 0", "POST 0", "POST 0"]);
    expect(await stateOf(world)).toEqual([
      { rows: "90", billed: "0", ledger: "0", in_doubt: "0", intent: "null" },
    ]);
  });

  test("whose pages announce more than its count is reserved and charged page by page, to the end", async () => {
    const { world } = await startOdd({ count: 250, answer: perPage(420) }, budgetOf(350));
    expect(await runOnce(world)).toMatchObject({ status: "limited", limited_by: "budget_month" });
    expect((await stateOf(world))[0]).toMatchObject({ rows: "300", billed: "300", ledger: "300" });
    world.configure(budgetOf(420));
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    expect(await stateOf(world)).toEqual([
      { rows: "420", billed: "420", ledger: "420", in_doubt: "0", intent: "null" },
    ]);
    expect(
      await world.value(
        "SELECT string_agg(records_matched::text, ' ' ORDER BY call_number) FROM person_data_ops.api_call WHERE budget = 'unlock'",
      ),
    ).toBe("100 100 100 100 20");
  });

  test("is charged what its pages say after a budget, or the service, refused one", async () => {
    const charges = [100, 80, 0];
    const odd: Odd = {
      count: 300,
      answer(method, offset) {
        if (method === "GET" && offset === 0) return { charged: 0 };
        return offset === 100 ? { status: 403 } : { charged: charges[offset / 100] ?? 0 };
      },
    };
    const { world } = await startOdd(odd, budgetOf(300));
    expect(await runOnce(world)).toMatchObject({ status: "failed", error: { code: "forbidden" } });
    world.configure(budgetOf(150));
    expect(await runOnce(world)).toMatchObject({ status: "limited", limited_by: "budget_month" });
    expect((await stateOf(world))[0]).toMatchObject({ rows: "100", intent: "null" });
    world.configure(budgetOf(5000));
    odd.answer = (_method, offset) => ({ charged: charges[offset / 100] ?? 0 });
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    expect(await stateOf(world)).toEqual([
      { rows: "300", billed: "180", ledger: "180", in_doubt: "0", intent: "null" },
    ]);
  });

  test("is charged what its page says after a lost answer, and all of its page if that says nothing", async () => {
    const lost = new Set<number>();
    const { world } = await startOdd(
      {
        count: 300,
        answer: (method, offset) => {
          if (offset === 0) return method === "GET" ? { charged: 0 } : { charged: 100 };
          if (lost.has(offset)) return { charged: offset === 100 ? 80 : 0 };
          lost.add(offset);
          return null;
        },
      },
      contactsOf(5000),
    );
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    expect((await stateOf(world))[0]).toMatchObject({ rows: "300", billed: "280", ledger: "280" });
  });

  test.each([
    ["in the same run", 1],
    ["by the next run", 8],
  ])(
    "whose unlock is charged, lost and then repeated at no charge %s is recorded as charged for all results",
    async (_when, lost) => {
      const { world, pages } = await startOdd(
        { count: 500, answer: (_method, _offset, call) => (call <= lost ? null : { charged: 0 }) },
        contactsOf(500),
      );
      const { status } = await runOnce(world);
      expect(status).toBe(lost === 1 ? "succeeded" : "failed");
      expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
      expect(await stateOf(world)).toEqual([
        { rows: "500", billed: "500", ledger: "500", in_doubt: "0", intent: "null" },
      ]);
      expect(pages.filter((page) => page.startsWith("POST"))).toHaveLength(lost + 1);
    },
  );
});
