import type { Answered, Attempt, LookupOutcome } from "../extract/lookup-outcome.ts";
import type { LookupAnswer, LookupRecord, LookupReject, Warehouse } from "../load/warehouse.ts";
import { cleanText } from "../schemas/clean-text.ts";
import { instantText } from "../schemas/convert.ts";
import { type Drift, DriftLog } from "../schemas/drift.ts";
import { isJsonObject } from "../schemas/flatten.ts";
import type { BoundLookup } from "./lookup-types.ts";
import type { Settled } from "./tally.ts";

/** What one call leaves behind, ready to be loaded. */
export interface Received extends Settled {
  readonly ledger: readonly Attempt[];
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
}

const nothing: Received = {
  ledger: [],
  answers: [],
  rejects: [],
  drift: [],
  setAside: [],
  setAsideBecause: null,
};

/** An attempt that yields no rows. */
export function receiveAttempt(attempt: Attempt): Received {
  return { ...nothing, ledger: [attempt] };
}

/** Makes rows' cells of what came back. Synchronous: the parsed answer can be dropped as soon as this returns. */
export function receive(
  outcome: LookupOutcome<LookupRecord>,
  bound: BoundLookup,
  warehouse: Pick<Warehouse, "preparePerson">,
): Received {
  if (outcome.kind === "answered") return receiveAnswer(outcome, bound, warehouse);
  if (outcome.kind === "set_aside") {
    return { ...nothing, setAside: outcome.items, setAsideBecause: outcome.message };
  }
  const { stage, code, message, details, apiRequestId } = outcome;
  return {
    ...nothing,
    rejects: outcome.items.map((record) => ({ record, stage, code, message, details, apiRequestId })),
  };
}

function receiveAnswer(
  answered: Answered<LookupRecord>,
  { endpoint, read }: BoundLookup,
  warehouse: Pick<Warehouse, "preparePerson">,
): Received {
  const { attempt, items, results, apiRequestId } = answered;
  const drift = new DriftLog(endpoint.name);
  const answeredAt = instantText(answered.requestCompletedAt) ?? endOf(attempt);
  const answers = items.map((record, i): LookupAnswer => {
    const raw = results[i] ?? {};
    const clean = answered.hasControlText ? cleanText(raw, "", drift) : raw;
    const part = read(isJsonObject(clean) ? clean : {}, drift);
    const person = part.person && warehouse.preparePerson(part.person, answeredAt);
    return { record, ...part, person, apiRequestId, answeredAt, callId: attempt.callId };
  });
  return { ...nothing, ledger: [attempt], answers, drift: drift.entries() };
}

/** When the answer was in our hands, by our clock: for a service that doesn't say. */
function endOf(attempt: Attempt): string {
  return new Date(Date.parse(attempt.startedAt) + attempt.milliseconds).toISOString().replace("Z", "+00:00");
}

/** Several calls' drift as one: places and kinds once each, occurrences added up. */
export function mergeDrift(lists: readonly (readonly Drift[])[]): readonly Drift[] {
  const merged = new Map<string, Drift>();
  for (const drift of lists.flat()) {
    const key = JSON.stringify([drift.endpoint, drift.path, drift.kind]);
    const known = merged.get(key);
    if (!known) merged.set(key, { ...drift });
    else {
      known.occurrences += drift.occurrences;
      known.observedType = drift.observedType;
    }
  }
  return [...merged.values()];
}
