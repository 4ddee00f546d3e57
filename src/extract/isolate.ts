import type { ErrorBody, ErrorDetail } from "../schemas/error-body.ts";

/** Maximum calls for finding the rejected records of one batch; the rest is set aside. */
export const MAX_ISOLATION_CALLS = 64;

/** Rejected part of a record and the type expected there; never a value. */
export interface Fault {
  /** Path inside the record (`emails.0`); empty for the record as a whole. */
  readonly path: string;
  readonly type: string | null;
}

/** Record named in a rejection. */
interface NamedRecord {
  /** Position in the batch. */
  readonly index: number;
  readonly faults: readonly Fault[];
}

/** Next step for a batch rejected with 400 or 422. */
type Isolation =
  /** The request itself is wrong, so that smaller batches would also be rejected. */
  | { readonly kind: "stop"; readonly where: string }
  /** Reject these records and send the others again. */
  | { readonly kind: "reject"; readonly records: readonly NamedRecord[] }
  /** No record was named: try both halves. */
  | { readonly kind: "split" };

const RECORDS = "records";
const INDEX = /^\d+$/u;
const FIELD = /^[\w-]{1,64}$/u;

function pathText(parts: readonly string[]): string {
  // A part that doesn't look like a field name may be a value.
  return parts.map((part) => (FIELD.test(part) ? part : "?")).join(".");
}

/** Position of the record that a detail refers to, with the path inside it; null if it refers to something else. */
function locate(detail: ErrorDetail, recordCount: number): { index: number; path: string } | null {
  const at = detail.loc.indexOf(RECORDS);
  const part = detail.loc[at + 1];
  if (at < 0 || part === undefined || !INDEX.test(part) || Number(part) >= recordCount) return null;
  return { index: Number(part), path: pathText(detail.loc.slice(at + 2)) };
}

/** True for a detail about a part of the request outside its records. */
function isOutside({ loc }: ErrorDetail): boolean {
  if (loc.length === 0 || (loc.length === 1 && loc[0] === "body")) return false;
  const part = loc[loc.indexOf(RECORDS) + 1];
  return !loc.includes(RECORDS) || part === undefined || !INDEX.test(part);
}

/** Decides how to find the rejected records of a batch; pure. */
export function isolate(error: ErrorBody, recordCount: number): Isolation {
  const faults = new Map<number, Fault[]>();
  for (const detail of error.details) {
    const place = locate(detail, recordCount);
    if (!place) continue;
    const fault = { path: place.path, type: detail.type };
    faults.set(place.index, [...(faults.get(place.index) ?? []), fault]);
  }
  if (faults.size > 0) {
    const records = [...faults].map(([index, found]) => ({ index, faults: found }));
    return { kind: "reject", records: records.toSorted((a, b) => a.index - b.index) };
  }
  if (error.details.length > 0 && error.details.every(isOutside)) {
    const places = error.details.map(
      ({ loc, type }) => `${pathText(loc)}${type === null ? "" : ` (${type})`}`,
    );
    return { kind: "stop", where: [...new Set(places)].slice(0, 5).join(", ") };
  }
  return recordCount > 1 ? { kind: "split" } : { kind: "reject", records: [{ index: 0, faults: [] }] };
}

/** Signature of a rejection, independent of the number of records named. */
export function refusalSignature(status: number, error: ErrorBody): string {
  const [first] = error.details;
  const shape = first ? `${pathText(first.loc).replaceAll(/\d+/gu, "*")} ${first.type ?? ""}` : "";
  return [status, error.code ?? "", shape].join(" ").trim();
}
