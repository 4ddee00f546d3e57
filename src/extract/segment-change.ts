import { countOf } from "../schemas/convert.ts";
import type { DriftLog } from "../schemas/drift.ts";
import { isJsonObject } from "../schemas/flatten.ts";
import { type FreeCall, readEnvelope } from "./free-call.ts";

/** What the service says of a change of members. */
export interface ChangeAnswer {
  /** PIDs that it doesn't know. */
  readonly invalid: readonly string[];
  /** People who are members now and were none before, or the other way round; null where it doesn't say. */
  readonly changed: number | null;
  /** People who were members before they were added; null where it doesn't say. */
  readonly redundant: number | null;
  readonly newSize: number | null;
}

/** The call by which members are added or removed. */
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

/** Reads an answer of the calls that add or remove members; null where it is none. */
export function readChange(bytes: Buffer, drift: DriftLog): ChangeAnswer | null {
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

/** Reads the id of a segment that was created; null where there is none. */
export function readCreated(bytes: Buffer, drift: DriftLog): string | null {
  const envelope = readEnvelope(bytes, drift);
  const results = envelope?.["results"];
  const id = envelope?.["segment_id"] ?? (isJsonObject(results) ? results["segment_id"] : null);
  // As configured ids are kept: the same segment mustn't stand in the tables twice.
  return typeof id === "string" && id !== "" ? id.toLowerCase() : null;
}
