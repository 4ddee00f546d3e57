import { MAX_RETRY_AFTER_MS } from "./retry-after.ts";

/** What came of one call, as far as the decision needs to know. */
export type CallOutcome =
  /** 200 with a readable envelope. */
  | { readonly kind: "answer" }
  /** A whole response with another status. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfterMs: number | null }
  /** No connection came about: the service can't have seen the request. */
  | { readonly kind: "not_sent" }
  /** Sent, but no whole and readable response: timeout, reset, a cut or unreadable body, a 200 without an envelope. */
  | { readonly kind: "lost" };

/** What happened to the same records before, in this run. */
export interface CallHistory {
  /** Earlier tries of which it is known that nothing was charged. */
  readonly refusals: number;
  /** Earlier tries that may have been charged without our getting an answer. */
  readonly ambiguous: number;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
}

/** What to do next with the records of a call. */
export type Decision =
  | { readonly action: "accept" }
  | { readonly action: "retry"; readonly afterMs: number }
  /** Leave the records unanswered; they stay due. */
  | { readonly action: "set_aside" }
  /** Find the records that the service refuses. */
  | { readonly action: "isolate" }
  | { readonly action: "halve" }
  | { readonly action: "use_capacity" }
  | { readonly action: "renew_key" }
  | { readonly action: "stop_job"; readonly code: string }
  | { readonly action: "stop_run"; readonly code: string };

type Retry = Extract<Decision, { action: "retry" }>;

/** What to do on a status, and whether the call may have been charged. */
interface Rule {
  readonly ambiguous: boolean;
  readonly decide: (history: CallHistory, retryAfterMs: number | null) => Decision;
}

const FIRST_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 60_000;
/** Connecting costs the service nothing, and whether it is gone for good should show soon. */
const MAX_CONNECT_BACKOFF_MS = 5000;
/** An ambiguous try is repeated only once, so it waits long enough for a hiccup to pass. */
const AMBIGUOUS_BACKOFF_MS = 5000;
const MAX_AMBIGUOUS_TRIES = 2;
/** Tries of one batch that the service turns away as unavailable while it answers others. */
const MAX_UNAVAILABLE_TRIES = 30;

/** Waits as the service asked (bounded) and at least a random share of a ceiling ("full jitter"). */
function retry(random: number, ceilingMs: number, retryAfterMs: number | null): Retry {
  const asked = Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER_MS);
  return { action: "retry", afterMs: Math.max(asked, Math.round(random * ceilingMs)) };
}

function backOff(history: CallHistory, retryAfterMs: number | null, maxMs = MAX_BACKOFF_MS): Retry {
  const ceilingMs = Math.min(maxMs, FIRST_BACKOFF_MS * 2 ** Math.min(history.refusals, 16));
  return retry(history.random, ceilingMs, retryAfterMs);
}

const always = (decision: Decision): Rule => ({ ambiguous: false, decide: () => decision });

/** A refusal for want of quota: how long it may go on is decided for all calls together, see limits.ts. */
const refused: Rule = {
  ambiguous: false,
  decide: (history, retryAfterMs) => backOff(history, retryAfterMs),
};

/** No connection: how long that may go on is decided for all calls together, see service-health.ts. */
const unreachable: Rule = {
  ambiguous: false,
  decide: (history) => backOff(history, null, MAX_CONNECT_BACKOFF_MS),
};

/** Nothing was charged and nothing is wrong with the records, but one batch alone must not hold up the end for ever. */
const unavailable: Rule = {
  ambiguous: false,
  decide: (history, retryAfterMs) =>
    history.refusals + 1 >= MAX_UNAVAILABLE_TRIES ? { action: "set_aside" } : backOff(history, retryAfterMs),
};

/** The service may have charged, and there is no key by which it would know a repetition: at most one more try. */
const ambiguous: Rule = {
  ambiguous: true,
  decide: (history, retryAfterMs) =>
    history.ambiguous + 1 >= MAX_AMBIGUOUS_TRIES
      ? { action: "set_aside" }
      : retry(history.random, AMBIGUOUS_BACKOFF_MS, retryAfterMs),
};

const ruleByStatus: Readonly<Record<number, Rule>> = {
  400: always({ action: "isolate" }),
  401: always({ action: "renew_key" }),
  402: always({ action: "use_capacity" }),
  403: always({ action: "stop_job", code: "forbidden" }),
  404: always({ action: "stop_job", code: "not_found" }),
  405: always({ action: "stop_job", code: "method_not_allowed" }),
  // From something between us and the service, which can't tell whether the service had the request.
  408: { ambiguous: true, decide: () => ({ action: "set_aside" }) },
  413: always({ action: "halve" }),
  422: always({ action: "isolate" }),
  429: refused,
  503: unavailable,
};

function ruleOfStatus(status: number): Rule {
  const rule = ruleByStatus[status];
  if (rule) return rule;
  if (status >= 300 && status < 400) return always({ action: "stop_run", code: "redirected" });
  if (status >= 400 && status < 500) return always({ action: "stop_job", code: "unexpected_status" });
  return ambiguous;
}

const ruleByKind: Readonly<Record<Exclude<CallOutcome["kind"], "status">, Rule>> = {
  answer: always({ action: "accept" }),
  not_sent: unreachable,
  lost: ambiguous,
};

function ruleOf(outcome: CallOutcome): Rule {
  return outcome.kind === "status" ? ruleOfStatus(outcome.status) : ruleByKind[outcome.kind];
}

/** Tries of a free call that may be repeated, whatever became of the ones before. */
const MAX_FREE_TRIES = 8;

/** What to do next with a free call. */
export type FreeDecision = Exclude<Decision, { action: "isolate" | "halve" | "use_capacity" | "set_aside" }>;

/**
 * Decides what to do after a call that costs nothing and does no harm when it is made again; pure. `tries` counts those
 * made, of any outcome but refusals for want of quota and missing connections, which all calls of a run are judged by.
 */
export function decideFreeRetry(
  outcome: CallOutcome,
  history: Pick<CallHistory, "refusals" | "random"> & { readonly tries: number },
): FreeDecision {
  const retryAfterMs = outcome.kind === "status" ? outcome.retryAfterMs : null;
  const decision = decideRetry(outcome, { ...history, ambiguous: 0 });
  if (decision.action === "isolate" || decision.action === "halve" || decision.action === "use_capacity") {
    return { action: "stop_job", code: "request_refused" };
  }
  const isPassing = isAmbiguous(outcome) || (outcome.kind === "status" && outcome.status === 503);
  if (!isPassing && decision.action !== "set_aside") return decision;
  if (history.tries >= MAX_FREE_TRIES) return { action: "stop_job", code: "no_answer" };
  return backOff({ refusals: history.tries - 1, ambiguous: 0, random: history.random }, retryAfterMs);
}

/** Decides what to do with the records of a call; pure. */
export function decideRetry(outcome: CallOutcome, history: CallHistory): Decision {
  return ruleOf(outcome).decide(history, outcome.kind === "status" ? outcome.retryAfterMs : null);
}

/** Whether the call may have been charged although its answer is not in our hands. */
export function isAmbiguous(outcome: CallOutcome): boolean {
  return ruleOf(outcome).ambiguous;
}
