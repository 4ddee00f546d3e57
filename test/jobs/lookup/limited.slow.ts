import { expect, test } from "vitest";
import { configOf, jobOf, startWorld } from "../world.ts";

/** Comparing each address with each row takes minutes. */
const ROWS = 40_000;

test("a first run of many addresses that sends few of them takes no more time than reading them", async () => {
  const config = configOf("\n  validate: { type: validate_emails, input: customers }");
  const world = await startWorld({ rows: ROWS, people: ROWS, config });
  for (const sent of [10, 20]) {
    expect(jobOf(await world.run({ maxRecords: 10 }), "validate")).toMatchObject({
      status: "limited",
      records_sent: 10,
    });
    const due = "SELECT count(*) FROM person_data_ops.api_call WHERE records_sent = 10";
    expect(await world.value(due)).toBe(String(sent / 10));
  }
}, 60_000);
