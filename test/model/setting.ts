import type { Random } from "../support/seeded-random.ts";
import { createAbsences } from "./absences.ts";
import { createReference, type InputRow, type ModelInput, type ModelJob } from "./reference.ts";
import { openModelWorld } from "./world.ts";

/** Totals of histories. */
export type Totals = ReturnType<typeof noTotals>;

/** Nothing yet; `sent` counts distinct contents of each run, `checks` jobs of runs that were compared with the reference. */
export function noTotals() {
  return { seeds: 0, nights: 0, runs: 0, sent: 0, kills: 0, erasures: 0, checks: 0 };
}

/** A history under way. */
export type History = Awaited<ReturnType<typeof openHistory>>;

const FIRST_NAMES = ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Nobody", "Poison"];
const CITIES = ["Rome", "Oslo", null, null];

/** Days of a pause: with ages of 10 and 20 days, no answer's age is within the spread of its expiry. */
export const PAUSE = 12;
const AGES = { matched: 10, unmatched: 20 };

/** Draws the parts of a history that stay the same. */
function drawShape(random: Random) {
  return {
    isKeyUnique: random.chance(0.6),
    resolves: random.chance(0.5),
    validates: random.chance(0.35),
    refreshes: random.chance(0.6),
    hasOrder: random.chance(0.3),
    perDay: random.chance(0.2) ? 20 + random.below(20) : null,
    /** True for `on_missing: erase` on customers. Only people of one row leave them then: no other row names an erased person. */
    erasesMissing: random.chance(0.4),
  };
}

/** Opens a history, which logs its events. */
export async function openHistory(random: Random, totals: Totals, log: (event: string) => void) {
  const shape = drawShape(random);
  // An input without any row erases no one.
  const customers: InputRow[] = shape.erasesMissing ? [newRow(random, 1)] : [];
  const leads: InputRow[] = [];
  const jobs: readonly ModelJob[] = [];
  const ages = shape.refreshes ? AGES : { matched: null, unmatched: null };
  const h = {
    world: await openModelWorld(shape.isKeyUnique),
    random,
    shape,
    totals,
    log,
    reference: createReference(ages, (): readonly ModelJob[] => h.jobs),
    absences: createAbsences(),
    tables: { customers, leads },
    /** In the order of the chain. */
    jobs,
    /** Names and parameters, which change. */
    naming: {
      customers: "customers",
      resolve: "resolve",
      enrich: "enrich",
      hasCity: true,
      returnFields: [] as readonly string[],
      /** Condition that is always true, in one of two spellings. */
      where: "true" as "true" | "1 = 1",
    },
    /** Requests whose answers are loaded. */
    loaded: new Set<string>(),
    /** Days of the calls. */
    days: new Map<number, number>(),
    /** First call of the day, and its date. */
    today: { from: 0, date: "" },
    /** Contents by kind that were left due. */
    open: new Map<string, Set<string>>(),
    /** People who left the customers, the last one last, and may return. */
    gone: [] as InputRow[],
    /** Keys of customers with a tombstone. */
    tombstones: new Set<string>(),
    renames: 0,
    solos: 0,
  };
  return h;
}

/** Rows of a job's input. */
export function rowsOf(h: History, job: ModelJob): readonly InputRow[] {
  return h.tables[job.input.table];
}

/** Writes the configuration of the present names and parameters. */
export async function configure(h: History): Promise<void> {
  const customers: ModelInput = { name: h.naming.customers, table: "customers", hasCity: h.naming.hasCity };
  const leads: ModelInput = { name: "leads", table: "leads", hasCity: true };
  const pidFrom = h.shape.resolves ? h.naming.resolve : null;
  const validFrom = h.shape.validates ? "validate" : null;
  const none = { pidFrom: null, validFrom: null, returnFields: [] };
  h.jobs = [
    ...(h.shape.validates
      ? [{ ...none, name: "validate", type: "validate_emails" as const, input: customers }]
      : []),
    ...(h.shape.resolves
      ? [{ ...none, name: h.naming.resolve, type: "resolve" as const, input: customers }]
      : []),
    {
      name: h.naming.enrich,
      type: "enrich",
      input: customers,
      pidFrom,
      validFrom,
      returnFields: h.naming.returnFields,
    },
    { ...none, name: "enrich_leads", type: "enrich", input: leads, returnFields: h.naming.returnFields },
  ];
  const age = h.shape.refreshes
    ? `, refresh_after: ${AGES.matched}d, refresh_unmatched_after: ${AGES.unmatched}d`
    : "";
  const inputLines = [customers, leads].map(
    ({
      name,
      table,
      hasCity,
    }) => `${name}: { table: crm.${table}, where: "${h.naming.where}", key: id${h.shape.hasOrder ? ", order_by: id" : ""}${table === "customers" && h.shape.erasesMissing ? ", on_missing: erase, max_missing_ratio: 1" : ""},
    fields: { full_name: name, emails: [email, work_email]${hasCity ? ", city: city" : ""} } }`,
  );
  const jobLines = h.jobs.map((job) => {
    const more = [
      ...(job.pidFrom === null ? [] : [`pid_from: ${job.pidFrom}`]),
      ...(job.validFrom === null ? [] : [`valid_emails_from: ${job.validFrom}`]),
      ...(job.returnFields.length === 0 ? [] : [`return_fields: [${job.returnFields.join(", ")}]`]),
    ];
    // Addresses are refreshed by one age only.
    const refresh =
      job.type === "validate_emails" && h.shape.refreshes ? `, refresh_after: ${AGES.matched}d` : age;
    return `${job.name}: { type: ${job.type}, input: ${job.input.name}${refresh}${more.map((one) => `, ${one}`).join("")} }`;
  });
  await h.world.configure(`
service: { base_url: "\${SERVICE_URL}", api_key: "\${SERVICE_KEY}", concurrency: 2 }
warehouse: { url: "\${WAREHOUSE_URL}" }
data_dir: answers
${h.shape.perDay === null ? "" : `budgets: { enrich: { per_day: ${h.shape.perDay} } }`}
inputs:
  ${inputLines.join("\n  ")}
jobs:
  ${jobLines.join("\n  ")}
`);
}

/** Row of anybody. */
function newRow(random: Random, id: number | null): InputRow {
  const some = (share: number) => (random.chance(share) ? `e${random.below(6)}@x` : null);
  const name = random.chance(0.95) ? random.pick(FIRST_NAMES) : null;
  return { id, name, email: some(0.6), work_email: some(0.2), city: random.pick(CITIES) };
}

/** Removes a row. */
function leave(h: History, table: ModelInput["table"], at: number): void {
  const rows = h.tables[table];
  if (table === "leads" || !h.shape.erasesMissing) return void rows.splice(at, 1);
  const [solo] = rows.filter(isSolo);
  if (!solo) return;
  rows.splice(rows.indexOf(solo), 1);
  h.gone.push(solo);
}

/** True for a row of somebody who has no other. */
export function isSolo({ id }: InputRow): boolean {
  return (id ?? 0) > 100;
}

/** Edits a table at random. */
export function edit(h: History, table: ModelInput["table"]): void {
  const rows = h.tables[table];
  for (let edits = h.random.below(7); edits > 0; edits -= 1) {
    const kind = h.random.next();
    const at = h.random.below(rows.length);
    const id = 1 + h.random.below(16);
    const returned = table === "customers" && h.random.chance(0.1) ? h.gone.pop() : undefined;
    if (returned) rows.push(returned);
    else if (kind < 0.25) leave(h, table, at);
    else if (kind < 0.35 && !h.shape.isKeyUnique)
      rows.push(newRow(h.random, h.random.chance(0.2) ? null : id));
    else if (kind < 0.42 && table === "customers") {
      h.solos += 1;
      rows.push({
        id: 100 + h.solos,
        name: `Solo${h.solos}`,
        email: `solo${h.solos}@x`,
        work_email: null,
        city: h.random.pick(CITIES),
      });
    } else if (kind < 0.5 && rows[at]) rows[at] = { ...rows[at], city: h.random.pick(CITIES) };
    else {
      const same = rows.findIndex((row) => row.id === id);
      rows.splice(same < 0 ? rows.length : same, same < 0 ? 0 : 1, newRow(h.random, id));
    }
  }
}

/** Writes the input tables. */
export async function write(h: History): Promise<void> {
  for (const [table, rows] of Object.entries(h.tables)) {
    await h.world.sql(`DELETE FROM crm.${table};
      INSERT INTO crm.${table} SELECT * FROM json_populate_recordset(NULL::crm.${table}, '${JSON.stringify(rows)}')`);
  }
}
