import type { JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { jobName } from "../../config/schema/values.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../schemas/flatten.ts";
import { isPersonMatch } from "../../schemas/answer.ts";
import { pidOf } from "../../schemas/convert.ts";
import {
  resolveEndpoint,
  resolveFields,
  resolveListFields,
  resolveScalarFields,
} from "../../schemas/resolve.ts";
import { pickExtra } from "./answer-extra.ts";
import { type AnsweredPart, type LookupJobType, lookupSettings, withRefresh } from "./lookup-type.ts";

const settings = jobSettings("resolve", {
  ...lookupSettings,
  /** Job whose `invalid` addresses are omitted. */
  valid_emails_from: jobName({ jobTypes: ["validate_emails"], usesAnswers: true }).optional(),
}).transform(withRefresh);

/** Job that finds the PID of each input row. */
export type ResolveJobConfig = JobOf<typeof settings>;

const flattener = flattenerOf(resolveEndpoint.result);
const cellAt = Object.keys(resolveFields).map((name) => flattener.fieldNames.indexOf(name));

/** Outcome and PID of a result. */
export function readMatch(result: JsonObject): Pick<AnsweredPart, "outcome" | "servicePid"> {
  if (!isPersonMatch(result)) return { outcome: "unmatched", servicePid: null };
  const servicePid = pidOf(result["service_pid"]);
  return { outcome: servicePid === null ? "no_pid" : "matched", servicePid };
}

function isResolvable(fields: readonly string[]): boolean {
  const has = (...names: string[]) => names.every((name) => fields.includes(name));
  return (has("full_name") || has("first_name", "last_name")) && (has("emails") || has("phones"));
}

/** Finds the PID of each input row: `POST /v1/resolve` into `resolution`. */
export const resolveJob: LookupJobType<ResolveJobConfig> = {
  type: "resolve",
  settings,
  isBilled: true,
  writes: ["resolution", "match_history"],
  complaints: (_job, { inputFields }) =>
    inputFields === null || isResolvable(inputFields)
      ? []
      : [
          {
            path: ["input"],
            message: "the input lacks fields required by resolve: a name, and emails or phones",
            hint: "map first_name and last_name (or full_name), and emails or phones, in the fields of the input",
          },
        ],
  endpoint: resolveEndpoint,
  inputFields: [...resolveScalarFields, ...resolveListFields],
  requestParameters: () => ({}),
  boughtWith: (job) => [job.validEmailsFrom !== null],
  pidFrom: () => null,
  validEmailsFrom: (job) => job.validEmailsFrom,
  readerOf: () => (result, drift) => {
    const { object } = flattener.flatten(result, null, drift);
    return {
      ...readMatch(result),
      cells: cellAt.map((i) => object.cells[i] ?? null),
      extra: extraCell(pickExtra(object.extra, (name) => name !== "record_id")),
      person: null,
    };
  },
};
