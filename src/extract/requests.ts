import type { LookupEndpoint } from "../schemas/endpoint.ts";

/** Distinct record to send. */
export interface LookupItem {
  /** Record as JSON text, without `record_id`; for e-mail validation, the address as a JSON string. */
  readonly json: string;
  /** Unique in the run; contains no personal data. */
  readonly recordId: string;
  /** For e-mail validation, the address as sent. */
  readonly address?: string;
  /** True if an earlier run may have been billed for it without an answer. Absent for false. */
  readonly mayBeBilled?: boolean;
}

/** HTTP request of a lookup, without headers. */
interface LookupRequest {
  readonly method: "POST";
  readonly path: string;
  /** JSON text. */
  readonly body: string;
}

/** Request with the number of its records. */
export interface FirstRequest extends LookupRequest {
  readonly records: number;
}

/** Builds the request of a call, to send it or to show it. */
export function buildRequest(
  { path, ...endpoint }: LookupEndpoint,
  parameters: object,
  items: readonly LookupItem[],
): LookupRequest {
  return { method: "POST", path, body: buildRequestBody(endpoint, parameters, items) };
}

function recordJson(item: LookupItem): string {
  const id = `{"record_id":${JSON.stringify(item.recordId)}`;
  return item.json === "{}" ? `${id}}` : `${id},${item.json.slice(1)}`;
}

/** Body of a call as JSON text; concatenates records without parsing them. */
export function buildRequestBody(
  endpoint: Pick<LookupEndpoint, "pairing">,
  parameters: object,
  items: readonly LookupItem[],
): string {
  const carriesIds = endpoint.pairing === "record_id";
  const records = items.map((item) => (carriesIds ? recordJson(item) : item.json)).join(",");
  const further = JSON.stringify(parameters);
  return `{"records":[${records}]${further === "{}" ? "}" : `,${further.slice(1)}`}`;
}

/**
 * Builds the first requests that a lookup makes if none fails; sends nothing.
 * @param count maximum number of requests
 */
export function firstRequests(
  endpoint: LookupEndpoint,
  parameters: object,
  items: readonly LookupItem[],
  count: number,
): readonly FirstRequest[] {
  const requests: FirstRequest[] = [];
  for (let at = 0; at < items.length && requests.length < count; at += endpoint.maxRecords) {
    const batch = items.slice(at, at + endpoint.maxRecords);
    requests.push({ ...buildRequest(endpoint, parameters, batch), records: batch.length });
  }
  return requests;
}
