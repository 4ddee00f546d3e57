import { dayOf } from "../../src/sandbox/population/calendar.ts";
import { createPeople } from "../../src/sandbox/population/people.ts";
import type { Sandbox } from "../../src/sandbox/start-sandbox.ts";
import { parseFaults } from "../../src/sandbox/faults/plan.ts";
import { type Answered, call, sandboxFor } from "./support.ts";

const people = createPeople(1, 10_000);
const today = dayOf(Date.now());

/** Forty records that all match. */
export const records: readonly { readonly record_id: string; readonly service_pid: string }[] = Array.from(
  { length: 40 },
  (_, i) => ({ record_id: `${i}`, service_pid: people.pidOf(i, today) }),
);

/** A sandbox with a fault plan. */
export async function sandboxWith(faults: string): Promise<Sandbox> {
  return sandboxFor({ faults: parseFaults(faults) });
}

/** Enriches records, by default the forty. */
export async function ask(sandbox: Sandbox, list: readonly object[] = records): Promise<Answered> {
  return call(sandbox, "/v2/enrich", { records: list });
}

/** The ledger's sums of enrich. */
export async function enrichTotals(sandbox: Sandbox): Promise<unknown> {
  const { body } = await call(sandbox, "/_sandbox/ledger");
  return new Map(Object.entries(Object(body["endpoints"]))).get("POST /v2/enrich");
}

/** Code of a broken connection, or the answer's status. */
export async function outcomeOf(sandbox: Sandbox): Promise<string | number> {
  try {
    return (await ask(sandbox)).status;
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}
