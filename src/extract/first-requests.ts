import type { Clock } from "../clock.ts";
import { openBatchQueue } from "./batch-queue.ts";
import { createBatchSize } from "./batch-size.ts";
import { itemsOf } from "./batch.ts";
import type { LookupOptions } from "./lookup.ts";
import type { LookupItem } from "./lookup-item.ts";
import { buildRequest, type LookupRequest } from "./request-body.ts";

/** A request with the number of its records. */
export interface FirstRequest extends LookupRequest {
  readonly records: number;
}

/** Records to batch. */
type Batching<T extends LookupItem> = Pick<LookupOptions<T>, "endpoint" | "parameters"> & {
  readonly items: readonly T[];
  readonly clock: Clock;
};

/**
 * Builds the first requests that a lookup makes if none fails; sends nothing.
 * @param count maximum number of requests
 */
export async function firstRequests<T extends LookupItem>(
  { endpoint, parameters, items, clock }: Batching<T>,
  count: number,
): Promise<readonly FirstRequest[]> {
  async function* pages() {
    yield items;
  }
  const size = createBatchSize(endpoint.maxRecords);
  const queue = openBatchQueue<T>({
    pages: pages(),
    clock,
    most: () => 1,
    batchSize: () => size.limit,
  });
  const requests: FirstRequest[] = [];
  while (requests.length < count) {
    const batch = await queue.take();
    if (batch === null) break;
    const records = itemsOf(batch.entries);
    requests.push({ ...buildRequest(endpoint, parameters, records), records: records.length });
    queue.giveBack([]);
  }
  await queue.close();
  return requests;
}
