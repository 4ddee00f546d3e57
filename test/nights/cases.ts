import { describe, expect, test } from "vitest";
import { type Night, type NightOptions, openWorld, summaryOf, unaccounted, type World } from "./night.ts";
import type { Endpoint, Received } from "./scripted-service.ts";

/** A night with its expected outcome. */
export interface ExpectedNight extends NightOptions {
  /** Contents that the service receives; a list means those of the only endpoint. Nothing by default, not compared if `any`. */
  readonly sent?: Received | readonly string[] | "any";
  /** Status of the run, or a summary of the only job or of each one; `succeeded` by default, not compared if `any`. */
  readonly ends?: string | Readonly<Record<string, string>>;
  /** Lines of queries. */
  readonly tables?: Readonly<Record<string, readonly string[]>>;
  /** Commands before the night, such as `rejects retry`. */
  readonly commands?: readonly (readonly string[])[];
  /** Exit codes of the commands; 0 by default. */
  readonly exitCodes?: readonly number[];
  /** Contents that the service bills; not compared by default. */
  readonly billed?: Received;
  /** Requests that the service receives; not compared by default. */
  readonly calls?: number;
}

/** Compared part of a night. */
interface Outcome {
  readonly sent: Received;
  readonly billed: Received;
  readonly calls: number;
  readonly ends: string | Readonly<Record<string, string>>;
  readonly tables: Readonly<Record<string, readonly string[]>>;
  readonly contradictions: readonly string[];
}

/** Makes a test of each sentence about a subject, which successive nights state. The first one's configuration is there before it. */
export function testNights(subject: string, cases: Readonly<Record<string, readonly ExpectedNight[]>>): void {
  describe.each([subject])("%s", () => {
    test.each(Object.entries(cases))("%s", async (_sentence, nights) => {
      const world = await openWorld();
      for (const [i, expected] of nights.entries()) {
        const outcome = await spend(world, expected);
        expect({ night: i + 1, ...outcome }).toEqual({ night: i + 1, ...expectedOf(expected, outcome) });
      }
    });
  });
}

/** Spends a night; returns its outcome in the form of the expected one. */
async function spend(world: World, expected: ExpectedNight): Promise<Outcome> {
  const { ends, tables = {}, commands = [] } = expected;
  if (expected.config) await world.configure(expected.config);
  for (const [i, command] of commands.entries()) await world.command(command, expected.exitCodes?.[i]);
  const night = await world.night(expected);
  const seen: Record<string, readonly string[]> = {};
  for (const sql of Object.keys(tables)) seen[sql] = await world.lines(sql);
  return {
    sent: night.sent,
    billed: night.billed,
    calls: world.service.calls.length,
    ends: endsOf(night, ends),
    tables: seen,
    contradictions: await contradictionsOf(world, night),
  };
}

function expectedOf(expected: ExpectedNight, seen: Outcome): Outcome {
  const { sent = {}, ends, tables = {}, kill } = expected;
  return {
    sent: sent === "any" ? seen.sent : isList(sent) ? { [onlyEndpoint(seen.sent)]: sent } : sent,
    billed: expected.billed ?? seen.billed,
    calls: expected.calls ?? seen.calls,
    ends: ends === "any" ? seen.ends : (ends ?? (kill === undefined ? "succeeded" : "killed")),
    tables,
    contradictions: [],
  };
}

function isList(sent: Received | readonly string[] | string): sent is readonly string[] {
  return Array.isArray(sent);
}

function onlyEndpoint(sent: Received): string {
  return Object.keys(sent)[0] ?? ("enrich" satisfies Endpoint);
}

function endsOf({ report }: Night, like: ExpectedNight["ends"]): Outcome["ends"] {
  if (report === null) return "killed";
  if (like === undefined || like === report.status) return report.status;
  const ends = Object.fromEntries(report.jobs.map((job) => [job.job, summaryOf(job)]));
  return typeof like === "string" ? Object.values(ends).join("; ") : ends;
}

/** Contradictions between a report, the law of counters, the table of runs and the ledger; empty if they agree. */
export async function contradictionsOf(world: World, { report }: Night): Promise<readonly string[]> {
  if (report === null) return [];
  const { shard = "0/1", run_id: runId } = report;
  const recorded =
    await world.lines(`SELECT job, status, records_read, records_sent, records_remaining, requests,
      (SELECT count(*) FROM api_call AS c WHERE c.run_id = r.run_id AND c.job = r.job)
        - (SELECT sum(requests) FROM sync_run AS a WHERE a.run_id = r.run_id AND a.job = r.job)
    FROM sync_run AS r WHERE run_id = '${runId}' AND shard = '${shard}'`);
  const reported = report.jobs
    .filter(({ status }) => status !== "locked")
    .map(({ job, status, requests, ...rest }) =>
      [job, status, rest.records_read, rest.records_sent, rest.records_remaining, requests, 0].join("|"),
    );
  const differing = reported.filter((line) => !recorded.includes(line));
  return [
    ...unaccounted(report),
    ...differing.map((line) => `reported ${line}, recorded ${recorded.join("; ")}`),
  ];
}
