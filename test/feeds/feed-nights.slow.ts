import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { runCli } from "../cli/support/cli.ts";
import { configText, makeSetting, type Setting } from "../cli/support/setting.ts";
import { readMembers, SEGMENT, truthOf } from "../jobs/segments/members-world.ts";
import {
  ask,
  type Compared,
  type CountTexts,
  differences,
  statedBuckets,
  statedDays,
  storedBuckets,
  storedDays,
} from "../jobs/usage/usage-truth.ts";
import { seededRandom, testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import { controlSandbox, livingAt } from "../support/sandbox-control.ts";

const PUSHED = "22222222-2222-4222-8222-222222222222";
const MEMBERS = 5400;
const PEOPLE = 8000;
const DAY_MS = 86_400_000;

/** Options of the nights. */
interface FeedNights {
  readonly nights: number;
  /** First night, `YYYY-MM-DD`. */
  readonly from: string;
  readonly seed: number;
  /** Interval, in nights, at which a run is killed and restarted. */
  readonly killEvery: number;
  /** A night followed by days without any run. */
  readonly pause?: { readonly after: number; readonly days: number };
}

/** Members of the second segment: some of those in the first one. */
const WANTED = `SELECT service_pid FROM person_data.segment_member WHERE segment_id = '${SEGMENT}' AND is_member AND service_pid LIKE '%4'`;

const jobsFrom = (from: string): string => `jobs:
  members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }] }
  pushed: { type: segment_push, segment_id: ${PUSHED}, mode: mirror, after: [members], sql: "${WANTED}" }
  deaths: { type: death_signals, segments: [{ id: ${SEGMENT} }] }
  searches: { type: search_usage }
  days: { type: endpoint_usage, bucketing_size: day, timezone: UTC, start_date: ${from} }
  hours: { type: endpoint_usage, bucketing_size: hour, timezone: America/New_York, start_date: ${from} }
`;

/** Faults without long waits; all of them end. */
const FAULTS = [
  "429=0:0.3",
  "503=0:0.3",
  "429=0#1-2,503=0#4",
  "cut_body#2",
  "truncated_json#1,reply_lost#4",
  "exponent_numbers@usage",
  "zoneless_times@usage",
  "utc_times@usage",
  "sparse_buckets@usage,slash_endpoints@usage",
  "sparse_buckets@usage,null_lists@usage",
  "shuffled@usage",
  "shuffled@deaths",
  "legacy_errors,429=0#1",
];
const KILLS = ["before_send", "after_receive", "before_commit", "after_commit"];

interface Stage extends Compared {
  readonly setting: Setting;
  /** Offset of the sandbox's and the program's clock, milliseconds. */
  aheadMs: number;
  control(path: string, body?: object): Promise<unknown>;
}

/** Differing lines of two lists; empty if they are equal. */
function differingLines(stored: readonly string[], stated: readonly string[]): readonly string[] {
  const [mine, theirs] = [new Set(stored), new Set(stated)];
  return [
    ...stored.filter((line) => !theirs.has(line)).map((line) => `only stored: ${line}`),
    ...stated.filter((line) => !mine.has(line)).map((line) => `not stored: ${line}`),
    ...(stored.length === stated.length ? [] : [`${stored.length} stored, ${stated.length} stated`]),
  ];
}

const storedLines = async (stage: Stage, sql: string): Promise<readonly string[]> =>
  (await stage.rows(sql)).map((row) => String(row["line"]));

async function compareMembers(stage: Stage): Promise<readonly string[]> {
  const { known, truth } = await readMembers(stage);
  return differingLines(known, truth);
}

/** Number of each person's additions and their presence, as seen by the nights. */
type Presence = Map<string, { comings: number; stays: boolean }>;

async function notePresence(stage: Stage, presence: Presence): Promise<void> {
  for (const { service_pid: pid, is_member: stays } of await truthOf(stage)) {
    const known = presence.get(pid) ?? { comings: 0, stays: false };
    presence.set(pid, { comings: known.comings + (stays && !known.stays ? 1 : 0), stays });
  }
}

/** Checks intervals: one per addition of a person, without overlap, open if the person is a member. */
async function compareHistory(stage: Stage, presence: Presence): Promise<readonly string[]> {
  const stored = await storedLines(
    stage,
    `SELECT concat_ws(' ', service_pid, count(*), bool_or(valid_to IS NULL), bool_or(reaches_over)) AS line
     FROM (
       SELECT *, coalesce(lead(valid_from) OVER (PARTITION BY service_pid ORDER BY valid_from) <
         coalesce(valid_to, 'infinity'), false) AS reaches_over
       FROM person_data.segment_membership_history WHERE segment_id = '${SEGMENT}') AS h
     GROUP BY service_pid`,
  );
  const seen = [...presence].filter(([, { comings }]) => comings > 0);
  const lineOf = ([pid, { comings, stays }]: (typeof seen)[number]) =>
    `${pid} ${comings} ${stays ? "t" : "f"} f`;
  return differingLines(stored, seen.map(lineOf));
}

/** Compares the pushed segment with the query and the stored state. Members in doubt stay when they are no longer listed. */
async function comparePushed(stage: Stage): Promise<readonly string[]> {
  const wanted = await storedLines(stage, WANTED.replace("service_pid", "service_pid AS line"));
  const known = await stage.rows(
    `SELECT service_pid, is_own FROM person_data_state.segment_push_member WHERE state = 'member' AND segment_id = '${PUSHED}'`,
  );
  const pids = known.map((row) => String(row["service_pid"]));
  const mayStay = new Set(known.flatMap((row) => (row["is_own"] === null ? [row["service_pid"]] : [])));
  const stated = await livingAt(stage.sandbox.url, PUSHED);
  return [
    ...differingLines(pids, stated),
    ...differingLines(
      wanted,
      stated.filter((pid) => wanted.includes(pid) || !mayStay.has(pid)),
    ),
  ];
}

async function compareDeaths(stage: Stage): Promise<readonly string[]> {
  // The service's answer (section 2.11).
  const { results } = (await ask(stage, `/v2/segments/signals/deaths?segment_id=${SEGMENT}`)) as {
    results: {
      obituary_id: string;
      service_pid: string;
      first_observed_at: string | null;
      date_of_death: string | null;
      publication_last_update_date: string | null;
      signal_metadata: object;
    }[];
  };
  const stored = await storedLines(
    stage,
    `SELECT concat_ws(' ', obituary_id, service_pid, coalesce(date_of_death::text, '-'),
       coalesce(publication_last_update_date::text, '-'),
       (SELECT string_agg(key || value::text, ',' ORDER BY key COLLATE "C") FROM jsonb_each_text(signal_metadata)
         WHERE key NOT IN ('survivors', 'newspaper_section'))) AS line
     FROM person_data.segment_death_signal JOIN person_data.death_signal USING (obituary_id, service_pid)
     WHERE segment_id = '${SEGMENT}' AND is_present`,
  );
  const [read] = await storedLines(
    stage,
    "SELECT cursor->>'checked_at' AS line FROM person_data_ops.checkpoint WHERE job = 'deaths'",
  );
  // The service's clock continues: later observations come with the next night.
  const shown = results.filter(
    ({ first_observed_at: at }) => at === null || Date.parse(at) <= Date.parse(read ?? ""),
  );
  const stated = shown.map((signal) => {
    const metadata = Object.entries(signal.signal_metadata)
      .filter(([key]) => key !== "survivors" && key !== "newspaper_section")
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => `${key}${String(value)}`);
    return [
      signal.obituary_id,
      signal.service_pid,
      signal.date_of_death ?? "-",
      signal.publication_last_update_date ?? "-",
      metadata.join(","),
    ].join(" ");
  });
  return differingLines(stored, stated);
}

async function compareSearches(stage: Stage): Promise<readonly string[]> {
  const names = ["period_start", "records_delivered", "searches_created", "parse_requests"];
  const lineOf = (row: Readonly<Record<string, unknown>>) => names.map((name) => row[name]).join(" ");
  const stated = (await statedDays(stage)).map(lineOf);
  const stored = (await storedDays(stage)).map(lineOf);
  return differingLines(
    stored.filter((line) => line >= (stated[0] ?? "").slice(0, 10)),
    stated,
  );
}

/** Without the calls of this night itself, which are counted while they are made. */
const ofOthers = (buckets: ReadonlyMap<string, CountTexts>) =>
  new Map([...buckets].filter(([name]) => !name.startsWith("v2/segments/")));

async function compareBuckets(
  stage: Stage,
  size: string,
  zone: string,
  days: { readonly from: string; readonly to: string },
): Promise<readonly string[]> {
  const stored = ofOthers(await storedBuckets(stage, size, zone));
  return differences(stored, ofOthers(await statedBuckets(stage, { size, zone, ...days })));
}

async function setStage(seed: number, from: string): Promise<Stage> {
  const setting = await makeSetting();
  const sandbox = await startSandbox({ people: PEOPLE, seed, countsContents: false });
  atEnd(() => sandbox.close());
  const config = configText({ baseUrl: sandbox.url, jobs: jobsFrom(from) });
  await writeFile(join(setting.cwd, "config.yaml"), config);
  const control: Stage["control"] = (path, body) => controlSandbox(sandbox.url, path, body);
  return { sandbox, rows: setting.query, setting, aheadMs: 0, control };
}

const clockModule = new URL("../support/shift-clock.ts", import.meta.url).href;

async function runOnce({ setting, aheadMs }: Stage, env: Readonly<Record<string, string>> = {}) {
  const clock = { NODE_OPTIONS: `--import=${clockModule}`, TEST_CLOCK_AHEAD_MS: String(aheadMs) };
  const result = await runCli(["--json", "run", "--yes"], {
    cwd: setting.cwd,
    env: { ...setting.env, ...clock, ...env },
  });
  return result;
}

/** Adds, removes and re-adds some people before the night. */
async function changeMembers(stage: Stage, random: ReturnType<typeof seededRandom>): Promise<void> {
  const members = await truthOf(stage);
  const some = (list: readonly { service_pid: string }[], most: number) =>
    Array.from({ length: list.length === 0 ? 0 : random.below(most) }, () => random.pick(list).service_pid);
  await stage.control("/members", {
    segment_id: SEGMENT,
    remove: some(
      members.filter((member) => member.is_member),
      40,
    ),
    add: some(
      members.filter((member) => !member.is_member),
      20,
    ),
  });
}

/**
 * Runs every feed each night like a user, against a service whose clock advances, with faults, kills and changes
 * between; after each night all tables must equal the service's data.
 */
async function runFeedNights({ nights, from, seed, killEvery, pause }: FeedNights) {
  const random = seededRandom(seed);
  const historyFrom = new Date(Date.parse(from) - 10 * DAY_MS).toISOString().slice(0, 10);
  const stage = await setStage(seed, historyFrom);
  const totals = { kills: 0, gaps: 0 };
  let nowMs = Date.parse(`${from}T03:05:00Z`);
  const goTo = async (atMs: number) => {
    const wantedMs = atMs - Date.now();
    await stage.control("/clock", { days: (wantedMs - stage.aheadMs) / DAY_MS });
    stage.aheadMs = wantedMs;
  };
  await goTo(nowMs);
  await stage.control("/segments", { segment_id: SEGMENT, name: "VIP", members: MEMBERS, batch: 700 });
  await stage.control("/segments", { segment_id: PUSHED, name: "Pushed", members: 0 });
  const presence: Presence = new Map();
  for (let night = 1; night <= nights; night++) {
    await goTo(nowMs);
    await changeMembers(stage, random);
    await notePresence(stage, presence);
    const faults = random.chance(0.6) ? random.pick(FAULTS) : "";
    await stage.control("/faults", { faults });
    const label = `seed ${seed}, night ${night}, faults ${faults || "none"}`;
    if (night % killEvery === 0) {
      const step = `${random.pick(KILLS)}:${1 + random.below(8)}`;
      const killed = await runOnce(stage, { PERSON_ETL_CRASH_AT: step });
      if (killed.code !== 0) totals.kills += 1;
    }
    const run = await runOnce(stage);
    expect([label, run.code, run.code === 0 ? "" : run.stdout]).toEqual([label, 0, ""]);
    await stage.control("/faults", { faults: "" });
    const days = { from: historyFrom, to: new Date(nowMs + DAY_MS).toISOString().slice(0, 10) };
    const found = [
      await compareMembers(stage),
      await compareHistory(stage, presence),
      await comparePushed(stage),
      await compareDeaths(stage),
      await compareSearches(stage),
      await compareBuckets(stage, "day", "UTC", days),
      await compareBuckets(stage, "hour", "America/New_York", days),
    ];
    expect([label, found.flat()]).toEqual([label, []]);
    nowMs += (night === pause?.after ? pause.days : 1) * DAY_MS;
  }
  totals.gaps = (await stage.rows("SELECT FROM person_data_ops.sync_gap")).length;
  return totals;
}

const NIGHTS = sized(8, 90);

test(`after each of ${NIGHTS} nights with faults and kills all feeds hold what the service says, a pause of 100 days included`, async () => {
  const seed = testSeed();
  const totals = await runFeedNights({
    nights: NIGHTS,
    from: "2026-02-20",
    seed,
    killEvery: 4,
    pause: { after: sized(5, 60), days: 100 },
  });
  process.stdout.write(`${JSON.stringify({ seed, ...totals })}\n`);
  expect(totals.kills).toBeGreaterThanOrEqual(sized(1, 9));
  expect(totals.gaps).toBe(1);
}, 1_800_000);

test("feeds stay right through a change of the clock", async () => {
  expect(await runFeedNights({ nights: 2, from: "2026-11-01", seed: 3, killEvery: 2 })).toMatchObject({
    kills: 1,
    gaps: 0,
  });
});
