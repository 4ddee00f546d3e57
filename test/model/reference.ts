import type { Endpoint } from "../nights/scripted-service.ts";
import { type Answer, type Call, contentOf, kindOf } from "./service.ts";

/** Row of an input table. */
export interface InputRow {
  readonly id: number | null;
  readonly name: string | null;
  readonly email: string | null;
  readonly work_email: string | null;
  readonly city: string | null;
}

/** Input of a job. */
export interface ModelInput {
  readonly name: string;
  readonly table: "customers" | "leads";
  /** True if `city` is mapped. */
  readonly hasCity: boolean;
}

export interface ModelJob {
  readonly name: string;
  readonly type: Endpoint;
  readonly input: ModelInput;
  readonly pidFrom: string | null;
  readonly validFrom: string | null;
  readonly returnFields: readonly string[];
}

/** Newest answer to a content. */
export interface Known extends Answer {
  readonly requestId: string;
  readonly serial: number;
  /** Day on which it was answered. */
  readonly day: number;
  readonly isRejected: boolean;
}

/** Present row, or address of a validation, as a job has to see it. */
export interface View {
  readonly state: "usable" | "unusable" | "waiting" | "suppressed";
  /** Contents that it may have: several if copies share its key, or an address became invalid since it was read. */
  readonly contents: ReadonlySet<string>;
  /** True if it has one content for certain. */
  readonly isSure: boolean;
  /** True if it may have none. */
  readonly isDoubtful?: boolean;
}

/** Contents that are due for a job. */
export interface Due {
  readonly must: ReadonlySet<string>;
  /** Includes `must`. */
  readonly may: ReadonlySet<string>;
}

/** State of a job after its last run. */
interface JobState {
  kind: string;
  /** Kind before the last change. */
  formerKind: string | null;
  hasCity: boolean;
  /** Answers of earlier calls aren't fresh. */
  resendFrom: number;
  /** The number of the last resend as the product has it. */
  drawn: string | null;
  /** State of each key when it was read. */
  readonly read: Map<string, Stored>;
}

/** Values of a row, and the contents that a job may have made from them. */
interface Seen {
  readonly values: string;
  readonly contents: ReadonlySet<string>;
}

/** Stored state of a key, by job. */
interface Stored {
  /** Several if runs died that may have read it. */
  readonly seen: readonly Seen[];
  /** False if one of several contents is stored, or the key has left since. */
  readonly isSure: boolean;
}

/** Row that has to be answered again although nothing but the parameters or the mapping need have changed. */
export interface Change {
  /** Null while it waits for its PID. */
  readonly content: string | null;
  /** Content that was answered before. */
  readonly former: string;
  /** True if its job certainly finds it so. */
  readonly isSure: boolean;
}

/** Days until an answer expires; null for never. */
export interface Ages {
  readonly matched: number | null;
  readonly unmatched: number | null;
}

export type Views = ReadonlyMap<string, View>;

export type Reference = ReturnType<typeof createReference>;

export function kindOfJob({ type, returnFields }: ModelJob): string {
  return kindOf(type, returnFields);
}

/** Names the state of a job: each input has its own. */
export function stateName({ name, input }: ModelJob): string {
  return `${name}/${input.name}`;
}

/** True if the job's mapping has `city`. */
function hasCity({ type, input }: ModelJob): boolean {
  return type === "enrich" && input.hasCity;
}

function emailsOf({ email, work_email: work }: InputRow): readonly string[] {
  return [email, work].flatMap((address) => address ?? []);
}

/** True if a content, address or row names one of the people. */
export function names(people: ReadonlySet<string>, text: string): boolean {
  return (text.match(/solo\d+/giu) ?? []).some((person) => people.has(person.toLowerCase()));
}

/** Content of a row. */
function record(
  job: ModelJob,
  row: InputRow,
  pid: string | null,
  isLeftOut: (address: string) => boolean,
): string {
  const emails = emailsOf(row).filter((address) => !isLeftOut(address));
  const city = hasCity(job) ? row.city : null;
  return contentOf({
    full_name: row.name,
    emails: emails.length > 0 ? emails : null,
    city,
    service_pid: pid,
  });
}

/** Values that a job compares with those it read. */
function valuesOf(job: ModelJob, row: InputRow, pid: string | null | undefined): string {
  return JSON.stringify([{ ...row, city: hasCity(job) ? row.city : null }, pid]);
}

/** True if the service takes such a row. */
function isUsable(job: ModelJob, row: InputRow, content: string): boolean {
  return job.type === "resolve" ? row.name !== null && emailsOf(row).length > 0 : content !== "{}";
}

/** Makes the rules of lookups over all contents and rows in memory, without answers. */
export function createReference(ages: Ages, jobs: () => readonly ModelJob[]) {
  const answers = new Map<string, Map<string, Known>>();
  const states = new Map<string, JobState>();
  const of = (kind: string) =>
    answers.get(kind) ?? answers.set(kind, new Map()).get(kind) ?? new Map<string, Known>();

  /** True if a run that died may have resolved a row without a PID. */
  function mayBeRejected(job: ModelJob, row: InputRow): boolean {
    const resolve = jobs().find(({ name }) => name === job.pidFrom);
    if (!resolve) return false;
    const content = record(resolve, row, null, () => false);
    const kind = kindOfJob(resolve);
    return reference.uncertain.get(kind)?.has(content) === true && !of(kind).has(content);
  }

  /** PID of a row; undefined while it waits. */
  function pidOf(job: ModelJob, row: InputRow): string | null | undefined {
    const resolve = jobs().find(({ name }) => name === job.pidFrom);
    if (!resolve) return null;
    const content = record(resolve, row, null, () => false);
    const known = of(kindOfJob(resolve)).get(content);
    if (!isUsable(resolve, row, content)) return null;
    return known && (known.isRejected ? null : known.pid);
  }

  function viewCopy(job: ModelJob, row: InputRow): View {
    const isUnknown = mayBeRejected(job, row);
    const pid = isUnknown ? null : pidOf(job, row);
    const none = { contents: new Set<string>(), isSure: true };
    if (names(reference.erased, JSON.stringify(row))) return { state: "suppressed", ...none };
    if (pid === undefined) return { state: "waiting", ...none };
    const isInvalid = (address: string) =>
      job.validFrom !== null && of("validate_emails").get(address)?.status === "invalid";
    const contents = new Set([record(job, row, pid, isInvalid)]);
    const stored = states.get(stateName(job))?.read.get(String(row.id))?.seen ?? [];
    const same = stored.filter(({ values }) => values === valuesOf(job, row, pid));
    if (job.validFrom !== null)
      for (const content of same.flatMap((seen) => [...seen.contents])) contents.add(content);
    const usable = [...contents].filter((content) => isUsable(job, row, content));
    const state = usable.length > 0 ? "usable" : "unusable";
    return {
      state,
      contents: new Set(usable),
      isSure: contents.size === 1,
      isDoubtful: usable.length < contents.size,
    };
  }

  function isFresh(job: ModelJob, content: string): boolean {
    const known = of(kindOfJob(job)).get(content);
    if (!known) return false;
    if (known.isRejected) return true;
    const age = known.isMatch ? ages.matched : ages.unmatched;
    return (
      known.serial >= (states.get(stateName(job))?.resendFrom ?? 0) &&
      (age === null || reference.day - known.day < age)
    );
  }

  const reference = {
    day: 0,
    erased: new Set<string>(),
    /** Contents, by kind, that were rejected or not: a run died. */
    uncertain: new Map<string, Set<string>>(),
    known: (kind: string, content: string) => of(kind).get(content),
    /** Takes the answers of a call, unless newer ones are known. */
    apply({ kind, serial, requestId, answers: given }: Call, day: number): void {
      if (requestId === null) return;
      for (const [content, answer] of given) {
        const known = of(kind).get(content);
        if (names(reference.erased, content) || (known && known.serial > serial)) continue;
        of(kind).set(content, { ...answer, requestId, serial, day, isRejected: false });
      }
    },
    reject(kind: string, content: string, serial: number): void {
      const none = { isMatch: false, pid: null, status: null, requestId: "", day: reference.day };
      of(kind).set(content, { ...none, serial, isRejected: true });
    },
    /** A refused content that no row has may be forgotten. */
    doubtUnwanted(kind: string, wanted: ReadonlySet<string>): void {
      for (const [content, { isRejected }] of of(kind)) {
        if (!isRejected || wanted.has(content)) continue;
        of(kind).delete(content);
        reference.uncertain.set(kind, (reference.uncertain.get(kind) ?? new Set()).add(content));
      }
    },
    view(job: ModelJob, rows: readonly InputRow[]): Views {
      const keyed = rows.filter(({ id }) => id !== null);
      if (job.type === "validate_emails") {
        // An address needs no key.
        const addresses = rows.flatMap(emailsOf);
        return new Map(
          addresses.map((address) => [
            address,
            names(reference.erased, address)
              ? { state: "suppressed", contents: new Set(), isSure: true }
              : { state: "usable", contents: new Set([address]), isSure: true },
          ]),
        );
      }
      const copies = Map.groupBy(keyed, ({ id }) => String(id));
      return new Map(
        [...copies].map(([key, same]): [string, View] => {
          const views = same.map((row) => viewCopy(job, row));
          const [first] = views;
          if (first && views.length === 1) return [key, first];
          const contents = new Set(views.flatMap((view) => [...view.contents]));
          const states = new Set(views.map(({ state }) => state));
          const isSure = states.size === 1 && contents.size === 1;
          const state = states.has("usable") ? "usable" : (first?.state ?? "unusable");
          return [
            key,
            {
              state,
              contents,
              isSure,
              isDoubtful: states.size > 1 || views.some((view) => view.isDoubtful === true),
            },
          ];
        }),
      );
    },
    /** Stores what a job read, or may have if its run died. */
    settle(job: ModelJob, rows: readonly InputRow[], views: Views, isSure: boolean): void {
      const state = states.get(stateName(job));
      if (!state) return;
      const present = new Map(rows.map((row) => [String(row.id), row]));
      for (const key of new Set([...present.keys(), ...state.read.keys()])) {
        const [row, view, before] = [present.get(key), views.get(key), state.read.get(key)];
        const now = row &&
          view?.state === "usable" && {
            values: valuesOf(job, row, pidOf(job, row)),
            contents: view.contents,
          };
        if (row && isSure) state.read.delete(key);
        if (now && isSure) state.read.set(key, { seen: [now], isSure: view.isSure });
        else if (!row && before) state.read.set(key, { ...before, isSure: false });
        else if (now) state.read.set(key, { seen: [...(before?.seen ?? []), now], isSure: false });
      }
    },
    due(job: ModelJob, views: Views): Due {
      const kind = kindOfJob(job);
      const must = new Set<string>();
      const may = new Set<string>();
      for (const { state, contents, isSure } of views.values()) {
        if (state !== "usable") continue;
        for (const content of contents) {
          if (isFresh(job, content)) continue;
          may.add(content);
          if (isSure && !reference.uncertain.get(kind)?.has(content)) must.add(content);
        }
      }
      return { must, may };
    },
    /** Contents that a job doesn't send again. */
    freshFor: (job: ModelJob): ReadonlySet<string> =>
      new Set([...of(kindOfJob(job)).keys()].filter((content) => isFresh(job, content))),
    stateOf: (job: ModelJob) => states.get(stateName(job)),
    /** Rows that were answered before the parameters or the mapping of a job changed, and that it would buy again. */
    changed(job: ModelJob, views: Views): readonly Change[] {
      const state = states.get(stateName(job));
      if (!state || (state.kind === kindOfJob(job) && state.hasCity === hasCity(job))) return [];
      const doubted = reference.uncertain.get(kindOfJob(job)) ?? new Set();
      return [...views].flatMap(([key, view]) => {
        const stored = state.read.get(key);
        const formers = (stored?.seen ?? []).flatMap((seen) =>
          [...seen.contents].filter((content) => of(state.kind).get(content)?.isRejected === false),
        );
        const contents =
          view.state === "waiting" ? [null] : [...view.contents].filter((content) => !isFresh(job, content));
        const isSure =
          stored?.isSure === true && view.isSure && !contents.some((one) => doubted.has(one ?? ""));
        return contents.flatMap((content) => formers.map((former): Change => ({ content, former, isSure })));
      });
    },
    /** `--accept-parameters keep`. */
    keep(job: ModelJob, changed: readonly Change[]): void {
      const state = states.get(stateName(job));
      const own = of(kindOfJob(job));
      const found = changed.flatMap(({ content, former }) => {
        const known = of(state?.kind ?? "").get(former);
        // A row that changed besides is sent, unless the mapping changed, too: the two look alike.
        const isKept = content === former || state?.hasCity !== hasCity(job);
        return content !== null && known && isKept ? [[content, known] as const] : [];
      });
      for (const [content, known] of found) {
        const kept = own.get(content);
        if (!kept || kept.serial < known.serial) own.set(content, known);
      }
    },
    accept(job: ModelJob): void {
      const accepted = { kind: kindOfJob(job), hasCity: hasCity(job) };
      const state = states.get(stateName(job)) ?? {
        ...accepted,
        formerKind: null,
        resendFrom: 0,
        drawn: null,
        read: new Map(),
      };
      const formerKind = state.kind === accepted.kind ? state.formerKind : state.kind;
      states.set(stateName(job), Object.assign(state, accepted, { formerKind }));
    },
  };
  return reference;
}
