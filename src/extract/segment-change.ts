import { countOf } from "../schemas/convert.ts";
import type { DriftLog } from "../schemas/drift.ts";
import { isJsonObject } from "../schemas/flatten.ts";
import { type FreeCall, readEnvelope } from "./free-call.ts";

/** Answer to a change of members. */
export interface ChangeAnswer {
  /** PIDs unknown to the service. */
  readonly invalid: readonly string[];
  /** Number of people added or removed; null if not reported. */
  readonly changed: number | null;
  /** Number of added people who were already members; null if not reported. */
  readonly redundant: number | null;
  readonly newSize: number | null;
}

/** Builds the call that adds or removes members. */
export function changeCall(
  { name, method, path }: { readonly name: string; readonly method: "POST"; readonly path: string },
  segmentId: string,
  pids: readonly string[],
  drift: DriftLog,
): FreeCall<ChangeAnswer> {
  return {
    endpoint: name,
    method,
    path,
    body: JSON.stringify({ segment_id: segmentId, service_pids: pids }),
    recordsSent: pids.length,
    expects: [404],
    read: (bytes) => readChange(bytes, drift),
  };
}

/** Parses the response to a change; null if invalid. */
function readChange(bytes: Buffer, drift: DriftLog): ChangeAnswer | null {
  const results = readEnvelope(bytes, drift)?.["results"];
  if (!isJsonObject(results)) return null;
  const { invalid_service_pids: invalid = null } = results;
  if (invalid !== null && !Array.isArray(invalid)) return null;
  return {
    invalid: (invalid ?? []).filter((pid): pid is string => typeof pid === "string"),
    changed: countOf(results["n_added"] ?? results["n_deleted"]),
    redundant: countOf(results["n_redundant_additions"]),
    newSize: countOf(results["new_current_size"]),
  };
}

/** Parses the ID of a created segment; null if missing. */
export function readCreated(bytes: Buffer, drift: DriftLog): string | null {
  const envelope = readEnvelope(bytes, drift);
  const results = envelope?.["results"];
  const id = envelope?.["segment_id"] ?? (isJsonObject(results) ? results["segment_id"] : null);
  // Lower case, like configured IDs, so that a segment has only one spelling in the tables.
  return typeof id === "string" && id !== "" ? id.toLowerCase() : null;
}
