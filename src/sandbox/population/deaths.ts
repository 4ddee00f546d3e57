import { ageOn, BASE_DAY, dayText } from "./calendar.ts";
import { below, chance, hash, pick } from "./hash.ts";
import type { People } from "./people.ts";
import { cities } from "./places.ts";
import { STREAM } from "./streams.ts";

/** A death signal of section 2.11, without the PID that it is asked under. */
export interface DeathSignal {
  readonly obituary_id: string;
  readonly date_of_death: string | null;
  readonly publication_last_update_date: string | null;
  /** Milliseconds since the epoch; null for older ones. */
  readonly observedMs: number | null;
  readonly signal_metadata: Readonly<Record<string, unknown>>;
}

const DAY_MS = 86_400_000;
/** Share of the people that die within {@link DEATH_DAYS} from {@link FIRST_DEATH} on. */
const DYING_SHARE = 0.03;
const FIRST_DEATH = BASE_DAY - 500;
const DEATH_DAYS = 1500;
/** Signals from before have no `first_observed_at`. */
const OBSERVED_SINCE = BASE_DAY - 250;
/** Share of the dead with a second obituary. */
const TWICE_SHARE = 0.04;

const SOURCES = ["obituary_database", "obituary_database", "ssdi", "public_records"] as const;

/** One obituary's questions: `slot` 0 or 1 keeps two of one person apart. */
interface Subject {
  readonly people: People;
  readonly index: number;
  readonly slot: number;
  readonly deathDay: number;
  /** When the service had it first. */
  readonly observedMs: number;
}

const ask = ({ people, index, slot }: Subject, question: number): number =>
  hash(people.key, index, STREAM.death + 10 + slot * 40 + question);

/** Milliseconds from the first sight on, `fewest` to `fewest + days` days. */
function afterDays(subject: Subject, question: number, fewest: number, days: number): number {
  return subject.observedMs + (fewest * DAY_MS + below(ask(subject, question), days * DAY_MS));
}

/** The keys vary by source; some come weeks later. */
function metadataOf(subject: Subject, nowMs: number): Readonly<Record<string, unknown>> {
  const { people, index, deathDay } = subject;
  const source = pick(SOURCES, ask(subject, 0));
  const city = pick(cities, ask(subject, 1));
  const { last } = people.nameOf(index);
  const has = (question: number, share: number) => chance(ask(subject, question), share);
  const service = nowMs >= afterDays(subject, 2, 0, 20) && has(3, 0.6);
  const confidence = below(ask(subject, 4), 5000) / 10_000 + 0.5;
  const raised = nowMs >= afterDays(subject, 5, 3, 40) && has(6, 0.2);
  return {
    source,
    confidence_score: raised ? 1 : confidence,
    ...(source === "obituary_database"
      ? {
          obituary_url: `https://obituaries.example/${people.identifiers.opaqueId("", STREAM.death, index, subject.slot)}`,
          publication_name: `${city.name} Courier`,
          ...(has(7, 0.7) ? { funeral_home: `${last} & Sons Funeral Home` } : {}),
          ...(has(8, 0.5)
            ? { survivors: [`${last} family`, `${below(ask(subject, 9), 6)} grandchildren`] }
            : {}),
          ...(service ? { service_date: dayText(deathDay + 6 + below(ask(subject, 10), 9)) } : {}),
          ...(has(11, 0.2) ? { memorial_donation_url: "https://donations.example/memorial" } : {}),
        }
      : {}),
    ...(has(12, 0.8) ? { city: city.name, state: city.state } : {}),
    ...(has(13, 0.7) ? { age_at_death: ageOn(people.families.birthDayOf(index), deathDay) } : {}),
    ...(has(14, 0.1)
      ? { newspaper_section: { page: 1 + below(ask(subject, 15), 30), edition: "morning" } }
      : {}),
  };
}

/** The signal as the service reports it at a moment; null before it is known, and after it was withdrawn. */
function signalAt(subject: Subject, nowMs: number): DeathSignal | null {
  const { people, index, slot, deathDay, observedMs } = subject;
  if (nowMs < observedMs) return null;
  const isWithdrawn = chance(ask(subject, 20), 0.08) && nowMs >= afterDays(subject, 21, 5, 60);
  const isBack = chance(ask(subject, 22), 0.3) && nowMs >= afterDays(subject, 23, 65, 30);
  if (isWithdrawn && !isBack) return null;
  const filledMs = chance(ask(subject, 24), 0.25) ? afterDays(subject, 25, 1, 20) : observedMs;
  const isWrong = chance(ask(subject, 26), 0.15);
  const correctedMs = isWrong ? afterDays(subject, 27, 1, 40) : observedMs;
  const stated = nowMs < correctedMs ? deathDay - 1 - below(ask(subject, 28), 3) : deathDay;
  const changedMs = Math.max(...[observedMs, filledMs, correctedMs].filter((changeMs) => changeMs <= nowMs));
  const tellsUpdate = chance(ask(subject, 29), 0.8) || nowMs >= afterDays(subject, 30, 2, 30);
  return {
    obituary_id: people.identifiers.opaqueId("obit-", STREAM.death + 2, index, slot),
    date_of_death: nowMs < filledMs ? null : dayText(stated),
    publication_last_update_date: tellsUpdate ? dayText(Math.floor(changedMs / DAY_MS)) : null,
    observedMs: Math.floor(observedMs / DAY_MS) < OBSERVED_SINCE ? null : observedMs,
    signal_metadata: metadataOf(subject, nowMs),
  };
}

/** The signals about a person at a moment, mostly none: a pure function of the population. */
export function deathSignalsOf(people: People, index: number, nowMs: number): readonly DeathSignal[] {
  if (!chance(hash(people.key, index, STREAM.death), DYING_SHARE)) return [];
  const deathDay = FIRST_DEATH + below(hash(people.key, index, STREAM.death + 1), DEATH_DAYS);
  if (nowMs < deathDay * DAY_MS) return [];
  const isTwice = chance(hash(people.key, index, STREAM.death + 2), TWICE_SHARE);
  return (isTwice ? [0, 1] : [0]).flatMap((slot) => {
    const delay = hash(people.key, index, STREAM.death + 4 + slot);
    // New deaths appear within 1 to 7 days (section 8).
    const observedMs = (deathDay + 1) * DAY_MS + below(delay, 6 * DAY_MS);
    return signalAt({ people, index, slot, deathDay, observedMs }, nowMs) ?? [];
  });
}
