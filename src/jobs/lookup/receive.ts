import type { PersonUpdate } from "../../load/lookup.ts";
import type { Answered, Attempt, LookupOutcome, ReadResult } from "../../extract/lookup.ts";
import type { LookupAnswer, LookupRecord, LookupReject, PreparedPerson } from "../../load/lookup.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { AnsweredPart } from "./lookup-type.ts";
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

/** What is kept of one result. */
export interface ReadPart extends Omit<AnsweredPart, "person"> {
  readonly person: PreparedPerson | null;
}

/** Makes rows' cells of one result, a person in the warehouse's own form: nothing of the parsed result is kept. */
export function resultReader(
  { read }: Pick<BoundLookup, "read">,
  prepare: (update: PersonUpdate) => PreparedPerson,
): ReadResult<ReadPart> {
  return (result, { drift }) => {
    const part = read(result, drift);
    return { ...part, person: part.person && prepare(part.person) };
  };
}

/** Makes what a commit takes of what came back. */
export function receive(outcome: LookupOutcome<LookupRecord, ReadPart>): Received {
  if (outcome.kind === "answered") return receiveAnswer(outcome);
  if (outcome.kind === "set_aside") {
    return { ...nothing, setAside: outcome.items, setAsideBecause: outcome.message };
  }
  const { stage, code, message, details, apiRequestId } = outcome;
  return {
    ...nothing,
    rejects: outcome.items.map((record) => ({ record, stage, code, message, details, apiRequestId })),
  };
}

function receiveAnswer(answered: Answered<LookupRecord, ReadPart>): Received {
  const { attempt, items, results, apiRequestId, answeredAt, drift } = answered;
  const answers = items.flatMap((record, i): LookupAnswer[] => {
    const part = results[i];
    return part ? [{ record, ...part, apiRequestId, answeredAt, callId: attempt.callId }] : [];
  });
  return { ...nothing, ledger: [attempt], answers, drift };
}
