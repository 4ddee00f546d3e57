import type { searchFailureCodes } from "../../../../src/schemas/audience-search.ts";
import type { Refusal } from "../http/answer.ts";
import type { Company } from "../population/companies.ts";
import type { Capacity } from "../organizations.ts";
import { createLexicon } from "./criteria.ts";

/** Maximum number of records of person search delivered to an organization per UTC day. */
const DAILY_RECORD_LIMIT = 10_000;

/** Course of a job, from its first state to its end. */
interface Course {
  /** States before the end, in their order; ones that the interface doesn't name are allowed. */
  readonly states: readonly string[];
  /** Milliseconds in each state; null to move on with each reading of the status. */
  readonly stateMs: number | null;
}

/** Place of a job on its course. */
interface Progress {
  readonly createdMs: number;
  /** Last change of the status. */
  updatedMs: number;
  /** Number of states left behind. */
  passed: number;
}

export function startProgress(nowMs: number): Progress {
  return { createdMs: nowMs, updatedMs: nowMs, passed: 0 };
}

/** Moves a job on for a reading of its status; returns its state, or null at the end. */
export function moveOn(progress: Progress, { states, stateMs }: Course, nowMs: number): string | null {
  let due = progress.passed + 1;
  if (stateMs !== null) {
    due = stateMs === 0 ? states.length : Math.floor((nowMs - progress.createdMs) / stateMs);
  }
  const passed = Math.max(progress.passed, Math.min(due, states.length));
  if (passed > progress.passed) {
    progress.passed = passed;
    progress.updatedMs = nowMs;
  }
  return states[passed] ?? null;
}

/** True if a job has left all states behind, without a reading of its status. */
export function hasEnded(progress: Progress, course: Course, nowMs: number): boolean {
  if (course.stateMs === null) return progress.passed >= course.states.length;
  return moveOn(progress, course, nowMs) === null;
}

/** A stored synchronous search, with the JSON text of its answer. */
interface StoredSearch {
  readonly searchId: string;
  readonly organization: string;
  readonly payload: string;
}

/** Intended course and end of an asynchronous search. */
export interface SearchPlan extends Course {
  readonly extent: "preview" | "full";
  readonly outcome: "completed" | (typeof searchFailureCodes)[number];
}

export interface SearchJob extends Progress {
  readonly segmentId: string;
  readonly organization: string;
  readonly query: string;
  /** Day on which the population was searched. */
  readonly day: number;
  readonly plan: SearchPlan;
  billable: number | null;
  unlockedMs: number | null;
  /** Members that replace those of the query; null for none. */
  statedMembers: readonly number[] | null;
}

export interface ContactRow {
  readonly index: number;
  readonly matchedTitle: string;
}

/** A contact job, made by the controls: the interface doesn't say how one is submitted. */
export interface ContactJob extends Progress {
  readonly jobId: string;
  readonly jobType: "contact_append" | "contact_prospect";
  readonly organization: string;
  readonly day: number;
  readonly course: Course;
  /** Code of its failure; null for success. */
  readonly failure: string | null;
  readonly totalMatched: number;
  readonly rows: readonly ContactRow[];
  /** Formulation of section 8: the unlock charges the whole job, or each page charges its records. */
  readonly billing: "unlock" | "page";
  billable: number | null;
  unlockedMs: number | null;
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
