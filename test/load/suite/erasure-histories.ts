import { expect, test } from "vitest";
import { findTraces } from "./erased-couple.ts";
import { runNight } from "./nights.ts";
import { enrichSpec, makePeople, people } from "./people.ts";
import { clear, type GetContext, type Context } from "./context.ts";
import * as fc from "../../support/fast-check.ts";

/** Steps: a row gets or loses an address, a person is erased, or a night passes. */
type Step =
  | { readonly kind: "write"; readonly key: number; readonly address: number | null }
  | { readonly kind: "erase"; readonly by: "row" | "address"; readonly which: number }
  | { readonly kind: "night"; readonly resend: boolean };

const KEYS = 5;
// Some are the same once blanks and case are left out.
const ADDRESSES = ["ann@x.example", "ANN@x.example ", "bob@x.example", "cid@x.example"];
const normalized = (address: number) => (ADDRESSES[address] ?? "").trim().toLowerCase();

const key = fc.integer({ min: 0, max: KEYS - 1 });
const address = fc.integer({ min: 0, max: ADDRESSES.length - 1 });
const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant("write" as const), key, address: fc.option(address) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("erase" as const),
        by: fc.constantFrom("row" as const, "address" as const),
        which: fc.integer({ min: 0, max: KEYS - 1 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("night" as const), resend: fc.boolean() }) },
  ),
  { minLength: 6, maxLength: 14 },
);

/** Model of the rules: erased people, and the content of each row's last answer. */
interface Model {
  readonly input: Map<number, number>;
  readonly answered: Map<number, number>;
  readonly erasedRows: Set<number>;
  readonly erasedAddresses: Set<string>;
}

async function write(context: Context, model: Model, step: Extract<Step, { kind: "write" }>): Promise<void> {
  await context.sql("DELETE FROM crm.people WHERE id = $1", [`row-${step.key}`]);
  model.input.delete(step.key);
  if (step.address === null) return;
  const name = `Name ${step.key}`;
  await context.sql("INSERT INTO crm.people (id, first_name, email) VALUES ($1, $2, $3)", [
    `row-${step.key}`,
    name,
    ADDRESSES[step.address],
  ]);
  model.input.set(step.key, step.address);
}

async function erase(
  { warehouse }: Context,
  model: Model,
  step: Extract<Step, { kind: "erase" }>,
): Promise<void> {
  const address = step.which % ADDRESSES.length;
  const rows = step.by === "row" ? [step.which] : [];
  const named = {
    pids: [],
    emails: step.by === "address" ? [ADDRESSES[address] ?? ""] : [],
    rows: rows.map((row) => ({ source: "people", sourceKey: `row-${row}` })),
  };
  const found = await warehouse.findPeople(named, [people]);
  const addresses = new Set(step.by === "address" ? [normalized(address)] : []);
  const keys = new Set(rows);
  for (const [row, its] of model.input) if (addresses.has(normalized(its))) keys.add(row);
  for (const row of keys) {
    const its = model.input.get(row);
    // An address that another row has too is no subject.
    const isShared = [...model.input].some(
      ([other, address]) => !keys.has(other) && its !== undefined && normalized(address) === normalized(its),
    );
    if (its !== undefined && !isShared) addresses.add(normalized(its));
  }
  expect(found.people).toEqual({
    pids: [],
    emails: [...addresses].toSorted(),
    rows: [...keys].toSorted((a, b) => a - b).map((row) => ({ source: "people", sourceKey: `row-${row}` })),
  });
  const id = await warehouse.requestErasure(found);
  await warehouse.removeErased(id);
  for (const row of keys) {
    model.erasedRows.add(row);
    model.answered.delete(row);
  }
  for (const one of addresses) model.erasedAddresses.add(one);
}

async function spend(context: Context, model: Model, step: Extract<Step, { kind: "night" }>): Promise<void> {
  const isErased = (row: number, its: number) =>
    model.erasedRows.has(row) || model.erasedAddresses.has(normalized(its));
  const rows = [...model.input];
  const touched = rows.filter(([row, its]) => step.resend || model.answered.get(row) !== its);
  const sent = touched.filter(([row, its]) => !isErased(row, its));
  const { counts, sent: records } = await runNight(context, enrichSpec({ resend: step.resend }));
  expect({
    read: counts.read,
    suppressed: counts.suppressed,
    unchanged: counts.unchanged,
    due: counts.due,
  }).toEqual({
    read: rows.length,
    suppressed: touched.length - sent.length,
    unchanged: rows.length - touched.length,
    due: sent.length,
  });
  expect(Object.keys(records).toSorted()).toEqual(sent.map(([row]) => `row-${row}`).toSorted());
  for (const [row, its] of sent) model.answered.set(row, its);
}

/** Tests random nights and erasures against a plain model. */
export function describeErasureHistories(getContext: GetContext, runs = 12): void {
  test("after any history of erasures every row is sent or withheld as the rules say, and the counts add up", async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const context = getContext();
        await clear(context);
        await makePeople(context, []);
        const model: Model = {
          input: new Map(),
          answered: new Map(),
          erasedRows: new Set(),
          erasedAddresses: new Set(),
        };
        for (const step of history) {
          if (step.kind === "write") await write(context, model, step);
          else if (step.kind === "erase") await erase(context, model, step);
          else await spend(context, model, step);
        }
        const erased = [...model.erasedRows].map((row) => `"row-${row}"`);
        expect(await findTraces(context, erased)).toEqual([]);
      }),
      { numRuns: runs },
    );
  }, 600_000);
}
