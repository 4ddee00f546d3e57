import { type BigQueryTarget, openBigQueryDestination } from "./bigquery/destination.ts";
import type { Destination } from "./destination.ts";
import { type DuckDbTarget, openDuckDbDestination } from "./duckdb/destination.ts";

/** A configured destination. */
export type DestinationTarget = DuckDbTarget | (BigQueryTarget & { readonly type: "bigquery" });

/** Opens a destination; it connects at the first use. */
export function openDestination(target: DestinationTarget): Destination {
  return target.type === "duckdb" ? openDuckDbDestination(target) : openBigQueryDestination(target);
}
