import { createHash } from "node:crypto";
import type { KeyedRecord } from "../../support/keyed-records.ts";
import { DriftLog } from "../../../src/schemas/drift.ts";
import { enrichEndpoint } from "../../../src/schemas/enrich.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../../src/schemas/flatten.ts";
import { personFields, personLists, personScalars } from "../../../src/schemas/person.ts";
import { type CallOutcome, commitOf, runOf, ANSWERED_AT, reserveAt } from "./nights.ts";
import { enrichSpec } from "./people.ts";
import type { Context } from "./context.ts";
import type { PersonUpdate } from "../../../src/load/answers/person-groups.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

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

/** Record outside any selection, for commits only; its content is its key. */
export function looseRecord(key: string, changes: Partial<KeyedRecord> = {}): KeyedRecord {
  const hash = Buffer.from(key).toString("hex").padEnd(64, "0").slice(0, 64);
  return {
    recordId: BigInt(`0x${createHash("sha256").update(key).digest("hex").slice(0, 15)}`).toString(),
    json: JSON.stringify({ first_name: key }),
    sentHash: hash,
    sentPid: null,
    rows: [{ sourceKey: key, inputHash: hash, priorOutcome: null }],
    ...changes,
  };
}

/** Commits persons as answers of one call, each for a new input row. */
export async function commitPersons(
  { warehouse }: Context,
  persons: readonly PersonUpdate[],
  outcome: Partial<CallOutcome> & {
    readonly spec?: LookupSpec;
    readonly keys?: readonly string[];
    readonly callNumber?: number;
  } = {},
): Promise<number> {
  const spec = outcome.spec ?? enrichSpec();
  const run = runOf(spec);
  await warehouse.beginRun(run);
  const replies = persons.map((person, i) => {
    const key = outcome.keys?.[i] ?? `${person.servicePid} ${outcome.answeredAt ?? ""} ${i}`;
    return [looseRecord(key), { pid: person.servicePid, person }] as const;
  });
  const commit = commitOf(warehouse, spec, run, replies, outcome);
  const { answeredAt: at = ANSWERED_AT, callNumber } = outcome;
  await reserveAt(warehouse, run, commit.ledger, { at, ...(callNumber === undefined ? {} : { callNumber }) });
  const { rowsWritten } = await warehouse.commitLookup(commit);
  return rowsWritten;
}
