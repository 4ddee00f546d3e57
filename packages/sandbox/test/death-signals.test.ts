import { describe, expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, people, sandboxFor } from "./support.ts";

const ID = "00000000-0000-4000-8000-000000000001";
const PATH = `/v2/segments/signals/deaths?segment_id=${ID}`;

interface Signal {
  readonly service_pid: string;
  readonly obituary_id: string;
  readonly date_of_death: string | null;
  readonly publication_last_update_date: string | null;
  readonly first_observed_at: string | null;
  readonly signal_metadata: Readonly<Record<string, unknown>>;
}

async function withSegment(): Promise<Sandbox> {
  const sandbox = await sandboxFor();
  // The same day for all runs of the test.
  const days = (Date.parse("2026-12-01T12:00:00Z") - Date.now()) / 86_400_000;
  await call(sandbox, "/_sandbox/clock", { days });
  await call(sandbox, "/_sandbox/segments", { segment_id: ID, name: "all", members: 10_000 });
  return sandbox;
}
const signalsOf = async (sandbox: Sandbox): Promise<readonly Signal[]> =>
  JSON.parse((await call(sandbox, PATH)).text).results;
const byId = (signals: readonly Signal[]) => new Map(signals.map((signal) => [signal.obituary_id, signal]));

describe("death signals", () => {
  it("are those of the members, with every documented field", async () => {
    const sandbox = await withSegment();
    const signals = await signalsOf(sandbox);
    expect(signals.length).toBeGreaterThan(100);
    const members =
      "service_pid,obituary_id,date_of_death,publication_last_update_date,first_observed_at,signal_metadata";
    expect(Object.keys(signals[0] ?? {}).join()).toBe(members);
    const keys = new Set(signals.flatMap((signal) => Object.keys(signal.signal_metadata)));
    expect([...keys].toSorted().join()).toBe(
      "age_at_death,city,confidence_score,funeral_home,memorial_donation_url,newspaper_section,obituary_url,publication_name,service_date,source,state,survivors",
    );
    expect(new Set(signals.map((signal) => signal.obituary_id)).size).toBe(signals.length);
    expect(new Set(signals.map((signal) => signal.service_pid)).size).toBeLessThan(signals.length);
    expect(signals.some((signal) => signal.first_observed_at === null)).toBe(true);
    await call(sandbox, "/_sandbox/members", { segment_id: ID, remove: signals.map((s) => s.service_pid) });
    expect(await signalsOf(sandbox)).toEqual([]);
  });

  it("come with time; dates and metadata are filled and corrected, and some disappear", async () => {
    const sandbox = await withSegment();
    const counts = { came: 0, went: 0, filled: 0, corrected: 0, grown: 0, observedAnew: 0 };
    let before = byId(await signalsOf(sandbox));
    for (let month = 0; month < 12; month++) {
      await call(sandbox, "/_sandbox/clock", { days: 15 });
      const after = byId(await signalsOf(sandbox));
      counts.came += [...after.keys()].filter((id) => !before.has(id)).length;
      for (const [id, one] of before) {
        const two = after.get(id);
        if (!two) counts.went += 1;
        else if (one.date_of_death === null && two.date_of_death !== null) counts.filled += 1;
        else if (one.date_of_death !== two.date_of_death) counts.corrected += 1;
        if (two && JSON.stringify(one.signal_metadata) !== JSON.stringify(two.signal_metadata))
          counts.grown += 1;
        if (two && one.first_observed_at !== two.first_observed_at) counts.observedAnew += 1;
      }
      before = after;
    }
    expect(counts).toEqual({ came: 36, went: 2, filled: 3, corrected: 3, grown: 4, observedAnew: 0 });
  });

  it("can be stated, replaced and removed by a test", async () => {
    const sandbox = await withSegment();
    const [first] = await signalsOf(sandbox);
    const mine = { service_pid: people.pidOf(0, 0), obituary_id: "mine", signal_metadata: { new_key: 1 } };
    const changed = { ...first, date_of_death: "2020-02-29" };
    await call(sandbox, "/_sandbox/deaths", { set: [mine, changed] });
    const now = byId(await signalsOf(sandbox));
    expect(now.get("mine")).toEqual(mine);
    expect(now.get(first?.obituary_id ?? "")).toEqual(changed);
    await call(sandbox, "/_sandbox/deaths", { remove: ["mine", first?.obituary_id] });
    const last = byId(await signalsOf(sandbox));
    expect([last.has("mine"), last.has(first?.obituary_id ?? "")]).toEqual([false, false]);
    expect(last.size).toBe(now.size - 2);
  });
});
