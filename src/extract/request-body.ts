import type { LookupEndpoint } from "../schemas/endpoint.ts";
import type { LookupItem } from "./lookup-item.ts";

function recordJson(item: LookupItem): string {
  const id = `{"record_id":${JSON.stringify(item.recordId)}`;
  return item.json === "{}" ? `${id}}` : `${id},${item.json.slice(1)}`;
}

/** Body of a call as JSON text; concatenates records without parsing them. */
export function buildRequestBody(
  endpoint: LookupEndpoint,
  parameters: object,
  items: readonly LookupItem[],
): string {
  const carriesIds = endpoint.pairing === "record_id";
  const records = items.map((item) => (carriesIds ? recordJson(item) : item.json)).join(",");
  const further = JSON.stringify(parameters);
  return `{"records":[${records}]${further === "{}" ? "}" : `,${further.slice(1)}`}`;
}
