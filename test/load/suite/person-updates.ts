import { createHash } from "node:crypto";
import type { KeyedRecord } from "../../support/keyed-records.ts";
import { DriftLog } from "../../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../../src/schemas/enrich.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../../src/schemas/flatten.ts";
import { personFields, personLists, personScalars } from "../../../src/schemas/person.ts";
import { ANSWERED_AT, type CallOutcome, commitAt, commitOf, runOf } from "./nights.ts";
import { enrichSpec, makePeople } from "./people.ts";
import type { Context } from "./context.ts";
import type { PersonUpdate } from "../../../src/load/lookups/person-groups.ts";
import type { LookupSpec } from "../../../src/load/lookups/lookup.ts";
import type { RunRef } from "../../../src/load/runs/fence.ts";

const flattener = flattenerOf(enrichEndpoint.result);
const empty: JsonObject = Object.fromEntries([
  ...Object.keys(personFields).map((name) => [name, null]),
  ...Object.keys(personLists).map((name) => [name, []]),
]);

function updateOf(pid: string, fields: JsonObject, isWhole: boolean): PersonUpdate {
  const flat = flattener.flatten(fields, pid, new DriftLog("POST /v2/enrich"));
  const cells = personScalars.map((name) => flat.object.cells[flattener.cellNames.indexOf(name)]);
  const extra = flat.object.extra === null && !isWhole ? undefined : extraCell(flat.object.extra);
  return { servicePid: pid, scalars: cells, extra, lists: flat.lists };
}

/** Answer with every field: absent ones become null or an empty list. */
export function wholePerson(pid: string, fields: JsonObject = {}): PersonUpdate {
  return updateOf(pid, { ...empty, ...fields }, true);
}

/** Answer with only the given fields. */
export function partialPerson(pid: string, fields: JsonObject): PersonUpdate {
  return updateOf(pid, fields, false);
}

/** Record of a row with the key as its only value (see {@link readRows}). */
export function looseRecord(key: string): KeyedRecord {
  const content = createHash("sha256")
    .update(`first_name=${Buffer.byteLength(key)}:${key};`)
    .digest("hex");
  return {
    recordId: content.slice(0, 32),
    json: JSON.stringify({ first_name: key }),
    content,
    sentPid: null,
    keys: [key],
  };
}

/** Has a run read input rows with these keys, each with its key as the only value. */
export async function readRows(
  context: Context,
  spec: LookupSpec,
  run: RunRef,
  keys: readonly string[],
): Promise<void> {
  await makePeople(context, []);
  await context.sql(
    `INSERT INTO crm.people (id, first_name) SELECT DISTINCT k, k FROM unnest($1::text[]) AS u(k)
    WHERE NOT EXISTS (SELECT FROM crm.people WHERE id = k)`,
    [keys],
  );
  await context.warehouse.selectLookup(spec, run);
}

/** Commits persons as answers of one call, each for a new input row. */
export async function commitPersons(
  context: Context,
  persons: readonly PersonUpdate[],
  outcome: Partial<CallOutcome> & {
    readonly spec?: LookupSpec;
    readonly keys?: readonly string[];
    readonly callNumber?: number;
  } = {},
): Promise<void> {
  const { warehouse } = context;
  const spec = outcome.spec ?? enrichSpec();
  const run = runOf(spec);
  await warehouse.beginRun(run);
  const replies = persons.map((person, i) => {
    const key = outcome.keys?.[i] ?? `${person.servicePid} ${outcome.completedAt ?? ""} ${i}`;
    return [looseRecord(key), { pid: person.servicePid, person }] as const;
  });
  await readRows(
    context,
    spec,
    run,
    replies.flatMap(([record]) => record.keys),
  );
  const commit = commitOf(warehouse, spec, run, replies, outcome);
  const { completedAt: at = ANSWERED_AT, callNumber } = outcome;
  await commitAt(warehouse, commit, { at, callNumber });
}
