import { configOf, jobOf, startWorld, type World } from "../world.ts";
import type { RunRequest } from "../../../src/jobs/services.ts";
import type { JobReport } from "../../../src/jobs/job.ts";

/** Sixteen people or so in the world's population of 20,000. */
export const NURSES = "registered nurses in Ohio";

/** Configuration with one job of audiences. */
export const audiencesOf = (searches: string, more = "", top = "") =>
  configOf(
    `
  audiences: { type: audience_search, searches: { ${searches} }${more} }`,
    top,
  );

/** World with one audience, whose searches are finished soon. @param unlock setting of its unlock */
export async function startAudience(
  unlock = "never",
  more: Partial<Parameters<typeof startWorld>[0]> = {},
): Promise<World> {
  const world = await startWorld({
    rows: 0,
    people: 20_000,
    config: audiencesOf(`nurses: { query: ${NURSES}, unlock: ${unlock} }`),
    ...more,
  });
  await world.control("/search_plan", { state_ms: 20 });
  return world;
}

/** Runs the job once. */
export async function runAudiences(world: World, request: Partial<RunRequest> = {}): Promise<JobReport> {
  return jobOf(await world.run(request), "audiences");
}

interface SearchJob {
  readonly segmentId: string;
  readonly billable: number | null;
}

/** Searches that the sandbox holds, with what each was charged. */
export async function searchesOfService(world: World): Promise<readonly SearchJob[]> {
  const { search_jobs: jobs } = await world.control<{ search_jobs: SearchJob[] }>("/searches");
  return jobs;
}

/** Calls of an endpoint, by status. */
export async function callsOf(world: World, endpoint: string): Promise<Readonly<Record<string, number>>> {
  const { endpoints } = await world.control<{
    endpoints: Record<string, { statuses: Record<string, number> }>;
  }>("/ledger");
  return endpoints[endpoint]?.statuses ?? {};
}

/** Endpoint that unlocks. */
export const UNLOCK = "POST /person-search/v0/search-jobs/{segment_id}/results";
/** Endpoint of a submit. */
export const SUBMIT = "POST /person-search/v0/search-jobs";

/** Members of an audience as the service pages them. */
export async function membersOfService(
  { sandbox: { url } }: { readonly sandbox: { readonly url: string } },
  segmentId: string,
): Promise<readonly string[]> {
  const pids: string[] = [];
  for (;;) {
    const path = `/person-search/v0/search-jobs/${segmentId}/results?limit=100&offset=${pids.length}`;
    const response = await fetch(url + path, { headers: { "x-api-key": "test-key" } });
    // Section 2.6.
    const page = (await response.json()) as { pids: string[]; total: number };
    pids.push(...page.pids);
    if (pids.length >= page.total) return pids;
  }
}

/** Stored members in their order. */
export async function storedMembers(world: World): Promise<readonly string[]> {
  const rows = await world.rows(
    "SELECT service_pid FROM person_data.audience_search_member ORDER BY position, service_pid",
  );
  return rows.map(({ service_pid: pid }) => String(pid));
}

/** Records that the ledger holds as billed, reserved and in doubt by reservations of unlocks. */
export async function unlocksInLedger(world: World) {
  return world.rows(
    `SELECT records_matched AS billed, records_reserved AS reserved, records_in_doubt AS in_doubt, possibly_billed
     FROM person_data_ops.api_call WHERE budget = 'unlock' ORDER BY call_number`,
  );
}

/** Records counted in the budget of unlocks. */
export const budgetUse = (world: World) =>
  world.value(
    "SELECT records_reserved FROM person_data_state.budget_use WHERE budget = 'unlock' AND period = 'month'",
  );

type Http = Awaited<ReturnType<World["services"]>>["http"];
type Reply = Awaited<ReturnType<Http["request"]>>;
type Body = Record<string, unknown>;

/** Client of a world, with calls or replies changed. */
export async function httpWith(
  world: World,
  intercept: (call: Parameters<Http["request"]>[0], send: () => Promise<Reply>) => Promise<Reply>,
): Promise<{ readonly http: Http }> {
  const { http } = await world.services();
  return { http: { ...http, request: (call) => intercept(call, () => http.request(call)) } };
}

/** The same reply with another body or status. */
export function changed(
  reply: Reply,
  change: { readonly status?: number; readonly body?: (body: Body) => Body },
) {
  if (reply.kind !== "response") return reply;
  const { status = reply.status, body } = change;
  // Bodies of free calls are in memory, uncompressed, and JSON objects.
  const sent = JSON.parse(Buffer.isBuffer(reply.body) ? reply.body.toString() : "{}") as Body;
  return { ...reply, status, body: Buffer.from(JSON.stringify(body ? body(sent) : sent)) };
}

/** Makes the search of an audience two days older, and so due again after `refresh_after: 1d`. */
export async function ageSearches(world: World): Promise<void> {
  await world.rows(`UPDATE person_data_ops.checkpoint
    SET cursor = jsonb_set(cursor::jsonb, '{submitted_at}', to_jsonb(to_char(
      (cursor::jsonb ->> 'submitted_at')::timestamptz - interval '2 days', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))
    WHERE job = 'audiences'`);
}
