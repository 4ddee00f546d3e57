import type { LookupEndpoint } from "../schemas/endpoint.ts";
import type { LookupItem } from "./lookup-item.ts";

/** HTTP request of a lookup, without headers. */
export interface LookupRequest {
  readonly method: "POST";
  readonly path: string;
  /** JSON text. */
  readonly body: string;
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
