import { ageOn, BASE_DAY, DAY_MS, dayText } from "./calendar.ts";
import { below, chance, hash, pick, STREAM } from "./hash.ts";
import type { People } from "./people.ts";
import { cities } from "./places.ts";

/** A death signal of section 2.11 without its PID. */
interface DeathSignal {
  readonly obituary_id: string;
  readonly date_of_death: string | null;
  readonly publication_last_update_date: string | null;
  /** Milliseconds since the epoch; null for older ones. */
  readonly observedMs: number | null;
  readonly signal_metadata: Readonly<Record<string, unknown>>;
}

/** Share of the people who die within {@link DEATH_DAYS} from {@link FIRST_DEATH} on. */
const DYING_SHARE = 0.03;
const FIRST_DEATH = BASE_DAY - 500;
const DEATH_DAYS = 1500;
/** Earlier signals have no `first_observed_at`. */
const OBSERVED_SINCE = BASE_DAY - 250;
/** Share of the dead with a second obituary. */
const TWICE_SHARE = 0.04;
const SOURCES = ["obituary_database", "obituary_database", "ssdi", "public_records"];

/** One of a person's obituaries at a moment; null before it is known and while it is withdrawn. */
function signalAt(
  people: People,
  index: number,
  slot: number,
  deathDay: number,
  nowMs: number,
): DeathSignal | null {
  const ask = (question: number) => hash(people.key, index, STREAM.death + 10 + slot * 40 + question);
  const has = (question: number, share: number) => chance(ask(question), share);
  // New deaths appear within 1 to 7 days (section 8).
  const delay = hash(people.key, index, STREAM.death + 4 + slot);
  const observedMs = (deathDay + 1) * DAY_MS + below(delay, 6 * DAY_MS);
  /** Instant from `fewest` to `fewest + days` days after the first observation. */
  const later = (question: number, fewest: number, days: number) =>
    observedMs + fewest * DAY_MS + below(ask(question), days * DAY_MS);
  const isWithdrawn = has(20, 0.08) && nowMs >= later(21, 5, 60);
  const isBack = has(22, 0.3) && nowMs >= later(23, 65, 30);
  if (nowMs < observedMs || (isWithdrawn && !isBack)) return null;

  const filledMs = has(24, 0.25) ? later(25, 1, 20) : observedMs;
  const correctedMs = has(26, 0.15) ? later(27, 1, 40) : observedMs;
  const statedDay = nowMs < correctedMs ? deathDay - 1 - below(ask(28), 3) : deathDay;
  const changedMs = Math.max(...[observedMs, filledMs, correctedMs].filter((atMs) => atMs <= nowMs));
  const hasUpdate = has(29, 0.8) || nowMs >= later(30, 2, 30);
  const source = pick(SOURCES, ask(0));
  const city = pick(cities, ask(1));
  const { last } = people.nameOf(index);
  const isRaised = nowMs >= later(5, 3, 40) && has(6, 0.2);
  const hasService = nowMs >= later(2, 0, 20) && has(3, 0.6);
  const obituary = {
    obituary_url: `https://obituaries.example/${people.identifiers.opaqueId("", STREAM.death, index, slot)}`,
    publication_name: `${city.name} Courier`,
    ...(has(7, 0.7) ? { funeral_home: `${last} & Sons Funeral Home` } : {}),
    ...(has(8, 0.5) ? { survivors: [`${last} family`, `${below(ask(9), 6)} grandchildren`] } : {}),
    ...(hasService ? { service_date: dayText(deathDay + 6 + below(ask(10), 9)) } : {}),
    ...(has(11, 0.2) ? { memorial_donation_url: "https://donations.example/memorial" } : {}),
  };
  return {
    obituary_id: people.identifiers.opaqueId("obit-", STREAM.death + 2, index, slot),
    date_of_death: nowMs < filledMs ? null : dayText(statedDay),
    publication_last_update_date: hasUpdate ? dayText(Math.floor(changedMs / DAY_MS)) : null,
    observedMs: Math.floor(observedMs / DAY_MS) < OBSERVED_SINCE ? null : observedMs,
    signal_metadata: {
      source,
      confidence_score: isRaised ? 1 : below(ask(4), 5000) / 10_000 + 0.5,
      ...(source === "obituary_database" ? obituary : {}),
      ...(has(12, 0.8) ? { city: city.name, state: city.state } : {}),
      ...(has(13, 0.7) ? { age_at_death: ageOn(people.families.birthDayOf(index), deathDay) } : {}),
      ...(has(14, 0.1) ? { newspaper_section: { page: 1 + below(ask(15), 30), edition: "morning" } } : {}),
    },
  };
}

/** Signals about a person at a moment, mostly none. */
export function deathSignalsOf(people: People, index: number, nowMs: number): readonly DeathSignal[] {
  const ask = (question: number) => hash(people.key, index, STREAM.death + question);
  const deathDay = FIRST_DEATH + below(ask(1), DEATH_DAYS);
  if (!chance(ask(0), DYING_SHARE) || nowMs < deathDay * DAY_MS) return [];
  const slots = chance(ask(2), TWICE_SHARE) ? [0, 1] : [0];
  return slots.flatMap((slot) => signalAt(people, index, slot, deathDay, nowMs) ?? []);
}
