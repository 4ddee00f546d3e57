import type { JobOf } from "../../config/config.ts";
import { choice, flag, listOf, text } from "../../config/schema/described.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { jobName } from "../../config/schema/values.ts";
import type { Cell } from "../../schemas/convert.ts";
import {
  enrichEndpoint,
  enrichFields,
  enrichListFields,
  enrichScalarFields,
  matchConditionFields,
} from "../../schemas/enrich.ts";
import { extraCell, type FlatList, type FlatResult, flattenerOf } from "../../schemas/flatten.ts";
import { personChildren, personDerived, personFields, personScalars } from "../../schemas/person.ts";
import { mergeExtra, pickExtra } from "./answer-extra.ts";
import { type LookupJobType, lookupSettings, type ReadResult, withRefresh } from "./lookup-type.ts";
import { readMatch } from "./resolve.ts";
import type { PersonUpdate } from "../../load/lookups/person-groups.ts";

const settings = jobSettings("enrich", {
  ...lookupSettings,
  /** Job whose PIDs are sent with the mapped fields. */
  pid_from: jobName({ jobTypes: ["resolve"], usesAnswers: true }).optional(),
  /** Job whose `invalid` addresses are omitted. */
  valid_emails_from: jobName({ jobTypes: ["validate_emails"], usesAnswers: true }).optional(),
  /** Omitted from the request if empty. */
  return_fields: listOf(text({ expects: "the name of a field" }), "a list of field names").default([]),
  /** Omitted from the request if empty. */
  match_condition_fields: listOf(choice(matchConditionFields), "a list of field names").default([]),
  include_premium_fields: flag().default(false),
}).transform(withRefresh);

/** Job that fetches the person of each input row. */
export type EnrichJobConfig = JobOf<typeof settings>;

const flattener = flattenerOf(enrichEndpoint.result);
const answerCellAt = Object.keys(enrichFields).map((name) => flattener.fieldNames.indexOf(name));
const personNames = Object.keys(personFields);
/** Field from which each derived column is computed. */
const sourceOf: ReadonlyMap<string, string> = new Map(
  personDerived.flatMap(({ from, columns }) => columns.map(({ name }) => [name, from] as const)),
);
/** By scalar column of a person: its cell, and the field that it comes from with that field's cell. */
const scalarCells = personScalars.map((name) => {
  const field = sourceOf.get(name) ?? name;
  return { at: flattener.cellNames.indexOf(name), field, fieldAt: flattener.cellNames.indexOf(field) };
});
const answerNames: ReadonlySet<string> = new Set(Object.keys(enrichFields));
const personNameSet: ReadonlySet<string> = new Set(personNames);

/** Reads results of a request for some fields, or for all (empty list). */
function readerFor(returnFields: readonly string[]): ReadResult {
  const asked: ReadonlySet<string> | null = returnFields.length === 0 ? null : new Set(returnFields);
  return (result, drift) => {
    const { outcome, servicePid } = readMatch(result);
    const flat = flattener.flatten(result, servicePid, drift);
    const cells = answerCellAt.map((i) => flat.object.cells[i] ?? null);
    if (servicePid !== null) {
      const extra = pickExtra(flat.object.extra, (name) => answerNames.has(name));
      const person = personOf(servicePid, flat, asked);
      return { outcome, servicePid, cells, extra: extraCell(extra), person };
    }
    // Without a PID, person fields are stored with the answer.
    const unmatchedFields = pickExtra(result, (name, value) => personNameSet.has(name) && value !== null);
    const rest = pickExtra(flat.object.extra, (name) => name !== "record_id");
    return {
      outcome,
      servicePid,
      cells,
      extra: extraCell(mergeExtra(unmatchedFields, rest)),
      person: null,
    };
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
    list?.rows.length === 0 && !isAsked(flattener.listNames[i] ?? "") ? undefined : list,
  );
  const extra = pickExtra(flat.object.extra, (name) => name !== "record_id" && !answerNames.has(name));
  return {
    servicePid,
    scalars,
    extra: extra === null && asked !== null ? undefined : extraCell(extra),
    lists,
  };
}

/** Order and repetition of these values make no difference. */
function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)].toSorted();
}

function returnFieldsIn({ return_fields: asked }: Readonly<Record<string, unknown>>): readonly string[] {
  return Array.isArray(asked) ? asked.map(String) : [];
}

/** Fetches the person of each input row: `POST /v2/enrich` into `enrichment`, `person` and its children. */
export const enrichJob: LookupJobType<EnrichJobConfig> = {
  type: "enrich",
  settings,
  isBilled: true,
  writes: [
    "enrichment",
    "match_history",
    "person",
    ...personChildren.map(({ name }) => name),
    "person_pid_alias",
  ],
  complaints: ({ pid_from: pidFrom }, { inputFields }) =>
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
  requestParameters: (job) => ({
    ...(job.matchConditionFields.length > 0 ? { match_condition_fields: job.matchConditionFields } : {}),
    ...(job.returnFields.length > 0 ? { return_fields: job.returnFields } : {}),
    ...(job.includePremiumFields ? { include_premium_fields: true } : {}),
  }),
  boughtWith: (job) => [
    job.validEmailsFrom !== null,
    job.pidFrom !== null,
    distinct(job.returnFields),
    distinct(job.matchConditionFields),
    job.includePremiumFields,
  ],
  pidFrom: (job) => job.pidFrom,
  validEmailsFrom: (job) => job.validEmailsFrom,
  readerOf: (parameters) => readerFor(returnFieldsIn(parameters)),
};
