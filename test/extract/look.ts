import { onTestFinished } from "vitest";
import { type LookupSetting, runLookup, someItems } from "./run-lookup.ts";
import { type Reply, type ScriptedService, type SeenRequest, startService } from "./scripted-service.ts";

/** Starts a service with these responses until the end of the test. */
export async function serve(reply: Reply): Promise<ScriptedService> {
  const service = await startService(reply);
  onTestFinished(() => service.close());
  return service;
}

/** Sends this many records to a service with these responses. */
export async function look(reply: Reply, count: number, setting: LookupSetting = {}) {
  const service = await serve(reply);
  const run = await runLookup(service.url, someItems(count), setting);
  return { ...run, requests: service.requests };
}

/** Number of records of each request. */
export const sizesOf = (requests: readonly SeenRequest[]) => requests.map(({ records }) => records.length);
/** True if the request contains this record. */
export const has = (request: SeenRequest, n: number) =>
  request.records.some((r) => r["record_id"] === `r${n}`);
