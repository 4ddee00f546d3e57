import type { ResolveJobConfig } from "../../config/config.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../schemas/flatten.ts";
import {
  resolveEndpoint,
  resolveFields,
  resolveListFields,
  resolveScalarFields,
} from "../../schemas/resolve.ts";
import { pickExtra } from "./answer-extra.ts";
import type { LookupJobType } from "./lookup-type.ts";

const flattener = flattenerOf(resolveEndpoint.result);
const cellAt = Object.keys(resolveFields).map((name) => flattener.fieldNames.indexOf(name));

/** The PID of a match; the service's word counts where it says whether it matched, else the PID alone. */
export function readMatch(result: JsonObject): { readonly isMatch: boolean; readonly pid: string | null } {
  const { is_match: said, service_pid: pid } = result;
  const usable = typeof pid === "string" && pid.trim() !== "" ? pid : null;
  const isMatch = typeof said === "boolean" ? said : usable !== null;
  return { isMatch, pid: isMatch ? usable : null };
}

/** Finds the PID of each input row: `POST /v1/resolve` into `resolution`. */
export const resolveJob: LookupJobType<ResolveJobConfig> = {
  endpoint: resolveEndpoint,
  inputFields: [...resolveScalarFields, ...resolveListFields],
  requestParameters: () => ({}),
  pidFrom: () => null,
  validEmailsFrom: (job) => job.validEmailsFrom,
  readerOf: () => (result, drift) => {
    const { isMatch, pid } = readMatch(result);
    const { object } = flattener.flatten(result, null, drift);
    return {
      outcome: isMatch ? "matched" : "unmatched",
      servicePid: pid,
      cells: cellAt.map((i) => object.cells[i] ?? null),
      extra: extraCell(pickExtra(object.extra, (name) => name !== "record_id")),
      person: null,
    };
  },
};
