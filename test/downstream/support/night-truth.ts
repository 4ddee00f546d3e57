import { controlSandbox } from "../../support/sandbox-control.ts";
import { WATCHED } from "./nights-config.ts";

/** Everything that the sandbox states at the end of a night. */
export interface NightTruth {
  /** The sandbox's time, ISO 8601. */
  readonly now: string;
  /** Present and former members by segment. */
  readonly segments: Readonly<Record<string, readonly StatedMember[]>>;
  /** Death signals by segment that the deaths job reads. */
  readonly deaths: Readonly<Record<string, readonly StatedDeath[]>>;
  /** Requests, records, matches and charges so far, by endpoint (`POST /v2/enrich`). */
  readonly ledger: Readonly<Record<string, StatedTotals>>;
  /** Days of every endpoint (section 2.10). */
  readonly endpointDays: readonly StatedBucket[];
  /** Days of person search (section 2.9). */
  readonly searchDays: readonly StatedSearchDay[];
}

/** A member of a segment. */
export interface StatedMember {
  readonly service_pid: string;
  readonly first_added_at: string;
  readonly last_added_at: string;
  readonly is_member: boolean;
}

/** A death signal. */
export interface StatedDeath {
  readonly obituary_id: string;
  readonly service_pid: string;
  readonly first_observed_at: string | null;
  readonly date_of_death: string | null;
}

/** Sums of an endpoint. */
export interface StatedTotals {
  readonly requests: number;
  readonly records: number;
  readonly matched: number;
  readonly billed: number;
}

/** A day of an endpoint. */
export interface StatedBucket {
  readonly endpoint: string;
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly total_requests: number;
  readonly num_input_records: number;
}

/** A day of person search. */
export interface StatedSearchDay {
  readonly period_start: string;
  readonly records_delivered: number;
  readonly searches_created: number;
  readonly parse_requests: number;
}

const FIRST_DAY = "2026-01-01";

/** Reads the sandbox's truth of this moment, through its controls where the service has no answer. */
export async function readTruth(url: string): Promise<NightTruth> {
  // Answers of the sandbox's controls.
  const { now } = (await controlSandbox(url, "")) as { now: string };
  const { segments } = (await controlSandbox(url, "/segments")) as {
    segments: { segment_id: string; name: string }[];
  };
  const { endpoints } = (await controlSandbox(url, "/ledger")) as { endpoints: NightTruth["ledger"] };
  const members: Record<string, readonly StatedMember[]> = {};
  const deaths: Record<string, readonly StatedDeath[]> = {};
  for (const { segment_id: id, name } of segments) {
    const answer = (await controlSandbox(url, `/segments/${id}/members`)) as {
      members: StatedMember[];
    };
    members[id] = answer.members;
    if (!WATCHED.has(name)) continue;
    deaths[id] = await readResults<StatedDeath>(url, `/v2/segments/signals/deaths?segment_id=${id}`);
  }
  const end = new Date(Date.parse(now) + 86_400_000).toISOString().slice(0, 10);
  const usage = await readResults<{ endpoint: string; buckets: (StatedBucket & { bucket_start: string })[] }>(
    url,
    `/usage?start_date=${FIRST_DAY}&end_date=${end}&bucketing_size=day&timezone=UTC&include_unused_endpoints=true`,
  );
  const { history } = (await ask(url, "/person-search/v0/usage?days=90")) as { history: StatedSearchDay[] };
  return {
    now,
    segments: members,
    deaths,
    ledger: endpoints,
    endpointDays: usage.flatMap(({ endpoint, buckets }) =>
      buckets.map(({ bucket_start: start, total_requests, num_input_records }) => ({
        endpoint,
        day: new Date(start).toISOString().slice(0, 10),
        total_requests,
        num_input_records,
      })),
    ),
    searchDays: history,
  };
}

async function readResults<Result>(url: string, path: string): Promise<readonly Result[]> {
  // The service's answer.
  const { results } = (await ask(url, path)) as { results: Result[] };
  return results;
}

async function ask(url: string, path: string): Promise<unknown> {
  const response = await fetch(url + path, { headers: { "x-api-key": "user-key-of-the-nights" } });
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return response.json();
}
