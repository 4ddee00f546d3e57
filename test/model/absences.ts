/** Runs, and days over which they have to miss a key, before `on_missing: erase` acts. */
const RUNS = 3;
const DAYS = 1;

/** Runs that missed a key, within bounds: a run that died may have counted. */
export interface Absence {
  /** Infinitely few if no run is known to have read the key. */
  readonly least: number;
  /** 0 while the key is in the input. */
  readonly most: number;
  /** Days between which the count began. */
  readonly earliest: number;
  readonly latest: number;
}

/** A reading of an input. */
export interface Reading {
  readonly day: number;
  /** Keys in the input, except those of erased people. */
  readonly present: ReadonlySet<string>;
  /** Text of the input's definition, a change of which starts the count over. */
  readonly definition: string;
  /** False for a run that died: it may have read the input. */
  readonly isSure: boolean;
}

export type Absences = ReturnType<typeof createAbsences>;

const PRESENT: Absence = { least: 0, most: 0, earliest: 0, latest: 0 };

/** True if `on_missing: erase` may erase the key, and true if it has to. */
export function isDue({ least, most, earliest, latest }: Absence, day: number) {
  return {
    may: most >= RUNS && day - earliest >= DAYS,
    must: least >= RUNS && day - latest >= DAYS,
  };
}

function missed(known: Absence, { day, isSure }: Reading): Absence {
  return {
    least: known.least + (isSure ? 1 : 0),
    most: known.most + 1,
    earliest: known.most === 0 ? day : known.earliest,
    latest: isSure && known.least === 0 ? day : known.latest,
  };
}

function found(known: Absence | undefined, { isSure }: Reading): Absence {
  if (isSure) return PRESENT;
  return known ? { ...known, least: Math.min(0, known.least) } : { ...PRESENT, least: -Infinity };
}

/** Keys by job and input, as jobs have to count their absence; none at first. */
export function createAbsences() {
  const jobs = new Map<string, { definition: string; readonly keys: Map<string, Absence> }>();
  return {
    count(job: string, reading: Reading): void {
      const { definition, present } = reading;
      const state = jobs.get(job) ?? { definition, keys: new Map<string, Absence>() };
      jobs.set(job, state);
      for (const [key, { least }] of state.keys) {
        if (state.definition !== definition) state.keys.set(key, { ...PRESENT, least: Math.min(0, least) });
      }
      state.definition = definition;
      for (const key of new Set([...state.keys.keys(), ...present])) {
        const known = state.keys.get(key);
        if (present.has(key)) state.keys.set(key, found(known, reading));
        else if (known) state.keys.set(key, missed(known, reading));
      }
    },
    of: (job: string): ReadonlyMap<string, Absence> => jobs.get(job)?.keys ?? new Map(),
    /** Keys of erased rows aren't known any more. */
    forget(keys: ReadonlySet<string>): void {
      for (const state of jobs.values()) for (const key of keys) state.keys.delete(key);
    },
  };
}
