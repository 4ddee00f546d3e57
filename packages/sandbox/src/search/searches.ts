import type { searchFailureCodes } from "../../../../src/schemas/audience-search.ts";
import type { Refusal } from "../http/answer.ts";
import type { WorldClock } from "../population/calendar.ts";
import type { Company } from "../population/companies.ts";
import type { Capacity } from "../organizations.ts";
import { createLexicon } from "./criteria.ts";

/** Maximum number of records of person search delivered to an organization per UTC day. */
const DAILY_RECORD_LIMIT = 10_000;

/** Intended course of a job, from its first state to its end. */
interface Plan {
  /** States before the end, in their order; ones that the interface doesn't name are allowed. */
  readonly states: readonly string[];
  /** Milliseconds in each state; null to move on with each reading of the status. */
  readonly stateMs: number | null;
  /** A `preview` stores no results, so it can't be unlocked. */
  readonly extent: "preview" | "full";
  /** `completed`, or the code of its failure. */
  readonly outcome: string;
}

/** An asynchronous search or a contact job. */
export interface Job<Planned extends Plan = Plan> {
  readonly organization: string;
  readonly plan: Planned;
  /** Day on which the population was searched. */
  readonly day: number;
  readonly createdMs: number;
  /** Last change of the status. */
  updatedMs: number;
  /** Number of states left behind. */
  passed: number;
  billable: number | null;
  unlockedMs: number | null;
}

export function startJob<Planned extends Plan>(
  organization: string,
  plan: Planned,
  clock: WorldClock,
): Job<Planned> {
  const nowMs = clock.nowMs();
  const start = { createdMs: nowMs, updatedMs: nowMs, passed: 0, billable: null, unlockedMs: null };
  return { organization, plan, day: clock.today(), ...start };
}

/** Moves a job on for a reading of its status; returns its state, or null at the end. */
export function moveOn(job: Job, nowMs: number): string | null {
  const { states, stateMs } = job.plan;
  let due = job.passed + 1;
  if (stateMs !== null) {
    due = stateMs === 0 ? states.length : Math.floor((nowMs - job.createdMs) / stateMs);
  }
  const passed = Math.max(job.passed, Math.min(due, states.length));
  if (passed > job.passed) {
    job.passed = passed;
    job.updatedMs = nowMs;
  }
  return states[passed] ?? null;
}

/** True if a job can be unlocked, without a reading of its status. */
export function canBeUnlocked(job: Job, nowMs: number): boolean {
  const { states, stateMs, outcome, extent } = job.plan;
  const hasEnded = stateMs === null ? job.passed >= states.length : moveOn(job, nowMs) === null;
  return hasEnded && outcome === "completed" && extent === "full";
}

/** A stored synchronous search, with the JSON text of its answer. */
interface StoredSearch {
  readonly searchId: string;
  readonly organization: string;
  readonly payload: string;
}

export interface SearchPlan extends Plan {
  readonly outcome: "completed" | (typeof searchFailureCodes)[number];
}

export interface SearchJob extends Job<SearchPlan> {
  readonly segmentId: string;
  readonly query: string;
  /** Members that replace those of the query; null for none. */
  statedMembers: readonly number[] | null;
}

export interface ContactRow {
  readonly index: number;
  readonly matchedTitle: string;
}

/** A contact job, made by the controls: the interface doesn't say how one is submitted. */
export interface ContactJob extends Job {
  readonly jobId: string;
  readonly jobType: "contact_append" | "contact_prospect";
  readonly totalMatched: number;
  readonly rows: readonly ContactRow[];
  /** Formulation of section 8: the unlock charges the whole job, or each page charges its records. */
  readonly billing: "unlock" | "page";
}

/** People that an organization has paid for in a calendar year, by index. */
interface DeliveredYear {
  readonly organization: string;
  readonly year: number;
  readonly indexes: readonly number[];
}

function createDeliveries(capacity: Capacity) {
  const years = new Map<string, DeliveredYear>();
  const keep = (kept: DeliveredYear) => years.set(`${kept.year} ${kept.organization}`, kept);
  return {
    /** Charges for people not delivered yet in the year; returns their number, or 402 if the capacity can't cover them. */
    charge(organization: string, nowMs: number, indexes: readonly number[]): number | Refusal {
      const year = new Date(nowMs).getUTCFullYear();
      const delivered = new Set(years.get(`${year} ${organization}`)?.indexes);
      const before = delivered.size;
      for (const index of indexes) delivered.add(index);
      const added = delivered.size - before;
      const refusal = capacity.refuse(added);
      if (refusal) return refusal;
      capacity.bill(added);
      keep({ organization, year, indexes: [...delivered] });
      return added;
    },
    all: () => [...years.values()],
    restore: (kept: readonly DeliveredYear[]) => kept.forEach(keep),
  };
}

/** Normal course of a search; its states are so short that polls skip some. */
export const USUAL_PLAN: SearchPlan = {
  states: ["created", "initiated", "parsing_search", "building_query", "querying"],
  stateMs: 200,
  extent: "full",
  outcome: "completed",
};

export type Searches = ReturnType<typeof createSearches>;

/** Makes a world without searches and contact jobs. */
export function createSearches(companies: readonly Company[], capacity: Capacity) {
  return {
    lexicon: createLexicon(companies),
    deliveries: createDeliveries(capacity),
    stored: new Map<string, StoredSearch>(),
    jobs: new Map<string, SearchJob>(),
    contactJobs: new Map<string, ContactJob>(),
    /** Plan of the searches that are submitted next. */
    plan: USUAL_PLAN,
    dailyRecordLimit: DAILY_RECORD_LIMIT,
  };
}

/** Resource of an organization; null if it doesn't exist or belongs to another one. */
export function ownOf<R extends { readonly organization: string }>(
  resources: ReadonlyMap<string, R>,
  { organization, id }: { readonly organization: string; readonly id: string },
): R | null {
  const found = resources.get(id.toLowerCase());
  return found?.organization === organization ? found : null;
}

/** Text of a normalized query: single spaces, none around. */
export function normalizeQuery(query: string): string {
  return query.trim().replaceAll(/\s+/g, " ");
}
