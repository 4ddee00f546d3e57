import type { InputConfig, JobConfig } from "../../config/config.ts";
import { type JobDeclaration, jobSettings } from "../../config/schema/jobs.ts";
import { choice, flag, listOf, type Settings, text, wholeNumber } from "../../config/schema/settings.ts";
import { age } from "../../config/schema/times.ts";
import { inputName, jobName } from "../../config/schema/values.ts";
import type { LookupType } from "../../load/inputs/input.ts";
import type { LookupAnswer } from "../../load/lookups/lookup.ts";
import type { PersonUpdate } from "../../load/lookups/person-groups.ts";
import { isPersonMatch, type LookupEndpoint } from "../../schemas/answer.ts";
import { type Cell, type DriftLog, pidOf } from "../../schemas/convert.ts";
import {
  enrichEndpoint,
  enrichFields,
  enrichListFields,
  enrichScalarFields,
  matchConditionFields,
} from "../../schemas/enrich.ts";
import {
  extraCell,
  type FlatList,
  type FlatResult,
  flattenerOf,
  type JsonObject,
} from "../../schemas/flatten.ts";
import { personChildren, personDerived, personFields, personScalars } from "../../schemas/person.ts";
import {
  resolveEndpoint,
  resolveFields,
  resolveListFields,
  resolveScalarFields,
} from "../../schemas/resolve.ts";
import { validateEmailsEndpoint, validateFields } from "../../schemas/validate-emails.ts";

const lookupSettings = {
  input: inputName(),
  /** Null: an answer never expires. */
  refresh_after: age().optional(),
  /** Defaults to `refresh_after`. */
  refresh_unmatched_after: age().optional(),
  /** Null: no cap. */
  max_records_per_run: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
};

/** Job that sends the rows of an input; settings that its type lacks are empty. */
export interface LookupJobConfig extends JobConfig, Omit<Settings<typeof lookupSettings>, "input"> {
  readonly type: LookupType;
  readonly input: InputConfig;
  /** Resolve job whose PIDs are also sent. */
  readonly pidFrom: string | null;
  /** Job whose `invalid` addresses are omitted. */
  readonly validEmailsFrom: string | null;
  readonly returnFields: readonly string[];
  readonly matchConditionFields: readonly string[];
  readonly includePremiumFields: boolean;
}

const NOT_SET = {
  pidFrom: null,
  validEmailsFrom: null,
  returnFields: [],
  matchConditionFields: [],
  includePremiumFields: false,
};

/** Adds the settings that a type lacks, and the default of `refresh_unmatched_after`. */
function complete<J extends Pick<LookupJobConfig, "refreshAfterMs" | "refreshUnmatchedAfterMs">>(job: J) {
  return { ...NOT_SET, ...job, refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs ?? job.refreshAfterMs };
}

/** Part of an answer that depends on the endpoint. */
export interface AnsweredPart extends Pick<LookupAnswer, "servicePid" | "cells" | "extra"> {
  /** `no_pid`: a match without a usable PID, which is no match and rejects its record. */
  readonly outcome: LookupAnswer["outcome"] | "no_pid";
  readonly person: PersonUpdate | null;
}

/** Converts one result to cells. Synchronous, so that the parsed answer can be freed at once. */
type ReadResult = (result: JsonObject, drift: DriftLog) => AnsweredPart;

export interface LookupJobType extends JobDeclaration {
  readonly type: LookupType;
  readonly endpoint: LookupEndpoint;
  /** Result tables, which are fresh after a successful run. */
  readonly writes: readonly string[];
  /** Fields of the interface's input record that the endpoint accepts. */
  readonly inputFields: readonly string[];
  /** @param parameters request parameters besides the records */
  readerOf(parameters: Readonly<Record<string, unknown>>): ReadResult;
}

function readMatch(result: JsonObject): Pick<AnsweredPart, "outcome" | "servicePid"> {
  if (!isPersonMatch(result)) return { outcome: "unmatched", servicePid: null };
  const servicePid = pidOf(result["service_pid"]);
  return { outcome: servicePid === null ? "no_pid" : "matched", servicePid };
}

/** Reads results without a person: the fields of the answer, and all others but its key in `_extra`. */
function plainReader(
  { result: declared }: LookupEndpoint,
  fields: object,
  key: string,
  match = readMatch,
): ReadResult {
  const flattener = flattenerOf(declared);
  const cellAt = placesOf(fields, flattener);
  return (result, drift) => {
    const { object } = flattener.flatten(result, null, drift);
    return {
      ...match(result),
      cells: cellAt.map((i) => object.cells[i] ?? null),
      extra: extraCell(pickExtra(object.extra, (name) => name !== key)),
      person: null,
    };
  };
}

const readResolution = plainReader(resolveEndpoint, resolveFields, "record_id");

// The stored address is the one sent, not the one returned.
const readValidation = plainReader(validateEmailsEndpoint, validateFields, "email_address", (result) => ({
  outcome: validateEmailsEndpoint.isMatch(result) ? "matched" : "unmatched",
  servicePid: null,
}));

function isResolvable(fields: readonly string[]): boolean {
  const has = (...names: string[]) => names.every((name) => fields.includes(name));
  return (has("full_name") || has("first_name", "last_name")) && (has("emails") || has("phones"));
}

/** Finds the PID of each input row: `POST /v1/resolve` into `resolution`. */
const resolveJob: LookupJobType = {
  type: "resolve",
  settings: jobSettings("resolve", {
    ...lookupSettings,
    /** Job whose `invalid` addresses are omitted. */
    valid_emails_from: jobName({ jobTypes: ["validate_emails"], usesAnswers: true }).optional(),
  }).transform(complete),
  isBilled: true,
  writes: ["resolution", "match_history"],
  findProblems: (_job, { inputFields }) =>
    inputFields === null || isResolvable(inputFields)
      ? []
      : [
          {
            path: ["input"],
            message:
              "the input has no mapping for fields that resolve requires: a name, and emails or phones",
            hint: "map first_name and last_name (or full_name), and emails or phones, in the fields of the input",
          },
        ],
  endpoint: resolveEndpoint,
  inputFields: [...resolveScalarFields, ...resolveListFields],
  readerOf: () => readResolution,
};

const enrichSettings = jobSettings("enrich", {
  ...lookupSettings,
  pid_from: jobName({ jobTypes: ["resolve"], usesAnswers: true }).optional(),
  /** Job whose `invalid` addresses are omitted. */
  valid_emails_from: jobName({ jobTypes: ["validate_emails"], usesAnswers: true }).optional(),
  /** Omitted from the request if empty. */
  return_fields: listOf(text({ expects: "the name of a field" }), "a list of field names").default([]),
  /** Omitted from the request if empty. */
  match_condition_fields: listOf(choice(matchConditionFields), "a list of field names").default([]),
  include_premium_fields: flag().default(false),
}).transform(complete);

const enrichResult = flattenerOf(enrichEndpoint.result);

const enrichCellAt = placesOf(enrichFields, enrichResult);

/** Field from which each derived column is computed. */
const sourceOf: ReadonlyMap<string, string> = new Map(
  personDerived.flatMap(({ from, columns }) => Object.keys(columns).map((name) => [name, from] as const)),
);

/** By scalar column of a person: its cell, and the field that it comes from with that field's cell. */
const scalarCells = personScalars.map((name) => {
  const field = sourceOf.get(name) ?? name;
  return { at: enrichResult.cellNames.indexOf(name), field, fieldAt: enrichResult.cellNames.indexOf(field) };
});

const answerNames: ReadonlySet<string> = new Set(Object.keys(enrichFields));

const personNameSet: ReadonlySet<string> = new Set(Object.keys(personFields));

/** Reads results of a request for some fields, or for all (empty list). */
function readerFor(returnFields: readonly string[]): ReadResult {
  const asked: ReadonlySet<string> | null = returnFields.length === 0 ? null : new Set(returnFields);
  return (result, drift) => {
    const { outcome, servicePid } = readMatch(result);
    const flat = enrichResult.flatten(result, servicePid, drift);
    const cells = enrichCellAt.map((i) => flat.object.cells[i] ?? null);
    if (servicePid !== null) {
      const extra = pickExtra(flat.object.extra, (name) => answerNames.has(name));
      const person = personOf(servicePid, flat, asked);
      return { outcome, servicePid, cells, extra: extraCell(extra), person };
    }
    // Without a PID, person fields are stored with the answer.
    const unmatchedFields = pickExtra(result, (name, value) => personNameSet.has(name) && value !== null);
    const rest = pickExtra(flat.object.extra, (name) => name !== "record_id");
    return { outcome, servicePid, cells, extra: extraCell(mergeExtra(unmatchedFields, rest)), person: null };
  };
}

/** Person of a match. Fields that were neither requested nor returned keep their stored value. */
function personOf(servicePid: string, flat: FlatResult, asked: ReadonlySet<string> | null): PersonUpdate {
  const isAsked = (name: string) => asked === null || asked.has(name);
  const { cells } = flat.object;
  const scalars = scalarCells.map(({ at, field, fieldAt }): Cell | undefined =>
    cells[fieldAt] === null && !isAsked(field) ? undefined : cells[at],
  );
  const lists = flat.lists.map((list, i): FlatList | undefined =>
    list?.rows.length === 0 && !isAsked(enrichResult.listNames[i] ?? "") ? undefined : list,
  );
  const extra = pickExtra(flat.object.extra, (name) => name !== "record_id" && !answerNames.has(name));
  return {
    servicePid,
    scalars,
    extra: extra === null && asked !== null ? undefined : extraCell(extra),
    lists,
  };
}

/** Fetches the person of each input row: `POST /v2/enrich` into `enrichment`, `person` and its children. */
export const enrichJob: LookupJobType = {
  type: "enrich",
  settings: enrichSettings,
  isBilled: true,
  writes: [
    "enrichment",
    "match_history",
    "person",
    ...personChildren.map(({ name }) => name),
    "person_history",
    "person_pid_alias",
  ],
  findProblems: ({ pid_from: pidFrom }, { inputFields }) =>
    pidFrom !== undefined && inputFields?.includes("service_pid")
      ? [
          {
            path: ["pid_from"],
            message: "conflicts with the mapped field service_pid",
            hint: "remove pid_from, or service_pid from the fields of the input",
          },
        ]
      : [],
  endpoint: enrichEndpoint,
  inputFields: [...enrichScalarFields, ...enrichListFields],
  readerOf: ({ return_fields: asked }) => readerFor(Array.isArray(asked) ? asked.map(String) : []),
};

const { refresh_unmatched_after: _same, ...validation } = lookupSettings;

// An address without a match was validated, too.
const validateSettings = jobSettings("validate_emails", validation).transform((job) =>
  complete({ ...job, refreshUnmatchedAfterMs: null }),
);

/** Validates the addresses of each input row: `POST /v2/validate_emails` into `email_validation`. */
const validateEmailsJob: LookupJobType = {
  type: "validate_emails",
  settings: validateSettings,
  isBilled: true,
  writes: ["email_validation", "input_email"],
  findProblems: (_job, { inputFields }) =>
    inputFields === null || inputFields.includes("emails")
      ? []
      : [
          {
            path: ["input"],
            message: "the input maps no emails",
            hint: "add emails to the fields of the input",
          },
        ],
  endpoint: validateEmailsEndpoint,
  inputFields: ["emails"],
  readerOf: () => readValidation,
};

export const lookupTypes: readonly LookupJobType[] = [resolveJob, validateEmailsJob, enrichJob];

export type Lookup = ReturnType<typeof lookupOf>;

function typeNamed(name: LookupType): LookupJobType {
  const found = lookupTypes.find(({ type }) => type === name);
  if (!found) throw new Error(`there is no lookup of type ${name}`);
  return found;
}

export function isLookupJob(job: JobConfig): job is LookupJobConfig {
  return lookupTypes.some(({ type }) => type === job.type);
}

/** Returns the reader for answers to given parameters, independent of the current configuration. */
export function answerReader(type: LookupType, parameters: Readonly<Record<string, unknown>>) {
  const found = typeNamed(type);
  return { endpoint: found.endpoint, read: found.readerOf(parameters) };
}

/** Request parameters of a job besides the records; empty ones are omitted. */
function requestParametersOf({
  matchConditionFields,
  returnFields,
  includePremiumFields,
}: LookupJobConfig): Readonly<Record<string, unknown>> {
  return {
    ...(matchConditionFields.length > 0 ? { match_condition_fields: matchConditionFields } : {}),
    ...(returnFields.length > 0 ? { return_fields: returnFields } : {}),
    ...(includePremiumFields ? { include_premium_fields: true } : {}),
  };
}

export function lookupOf(job: LookupJobConfig) {
  const requestParameters = requestParametersOf(job);
  const { inputFields } = typeNamed(job.type);
  return { ...answerReader(job.type, requestParameters), inputFields, requestParameters };
}

function placesOf(
  fields: object,
  { fieldNames }: { readonly fieldNames: readonly string[] },
): readonly number[] {
  return Object.keys(fields).map((name) => fieldNames.indexOf(name));
}

/** Values by field name, for `_extra`. */
type Extra = Record<string, unknown> | null;

function pickExtra(from: JsonObject | null, picks: (name: string, value: unknown) => boolean): Extra {
  if (from === null) return null;
  const picked = Object.entries(from).filter(([name, value]) => picks(name, value));
  // fromEntries, because a field may be named __proto__.
  return picked.length === 0 ? null : Object.fromEntries(picked);
}

function mergeExtra(a: Extra, b: Extra): Extra {
  if (a === null || b === null) return a ?? b;
  return Object.fromEntries([...Object.entries(a), ...Object.entries(b)]);
}
