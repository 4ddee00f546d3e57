import { openWarehouse } from "../support/bound-load.ts";
import type { RowMaker } from "./fuzz-lookup.ts";

/** The real warehouse's conversion to rows, without a connection. */
export const rowMaker: RowMaker = openWarehouse({
  url: "postgres://nobody@127.0.0.1:1/nowhere",
  schema: "person_data",
  opsSchema: "person_data_ops",
  stateSchema: "person_data_state",
});
