import type { searchFailureCodes } from "../../schemas/audience-search.ts";
import type { Company } from "../population/companies.ts";
import type { Capacity } from "../capacity.ts";
import { createLexicon, type Lexicon } from "./criteria.ts";
import { createDeliveries, type Deliveries } from "./deliveries.ts";
import type { Course, Progress } from "./progress.ts";

/** Maximum number of records of person search delivered to an organization per UTC day. */
const DAILY_RECORD_LIMIT = 10_000;

/** A stored synchronous search. */
interface StoredSearch {
  readonly searchId: string;
  readonly organization: string;
  /** JSON text of its answer. */
  readonly payload: string;
}

/** Intended course and end of an asynchronous search. */
export interface SearchPlan extends Course {
  readonly extent: "preview" | "full";
  readonly outcome: "completed" | (typeof searchFailureCodes)[number];
}

/** An asynchronous search. */
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

/** A result of a contact job. */
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

/** Searches and contact jobs of all organizations. */
export interface Searches {
  readonly lexicon: Lexicon;
  readonly deliveries: Deliveries;
  readonly stored: Map<string, StoredSearch>;
  readonly jobs: Map<string, SearchJob>;
  readonly contactJobs: Map<string, ContactJob>;
  /** Plan of the searches that are submitted next. */
  plan: SearchPlan;
  dailyRecordLimit: number;
  reset(): void;
}

/** Normal course of a search; its states are so short that polls skip some. */
export const USUAL_PLAN: SearchPlan = {
  states: ["created", "initiated", "parsing_search", "building_query", "querying"],
  stateMs: 200,
  extent: "full",
  outcome: "completed",
};

/** Makes a world without searches. */
export function createSearches(companies: readonly Company[], capacity: Capacity): Searches {
  const searches: Searches = {
    lexicon: createLexicon(companies),
    deliveries: createDeliveries(capacity),
    stored: new Map(),
    jobs: new Map(),
    contactJobs: new Map(),
    plan: USUAL_PLAN,
    dailyRecordLimit: DAILY_RECORD_LIMIT,
    reset() {
      searches.deliveries.reset();
      searches.stored.clear();
      searches.jobs.clear();
      searches.contactJobs.clear();
      searches.plan = USUAL_PLAN;
      searches.dailyRecordLimit = DAILY_RECORD_LIMIT;
    },
  };
  return searches;
}

/** Resource of an organization; null if it doesn't exist or belongs to another one. */
export function ownOf<R extends { readonly organization: string }>(
  resources: ReadonlyMap<string, R>,
  organization: string,
  id: string,
): R | null {
  const found = resources.get(id.toLowerCase());
  return found?.organization === organization ? found : null;
}
