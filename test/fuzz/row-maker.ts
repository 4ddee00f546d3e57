import { openWarehouse } from "../support/bound-load.ts";
import type { RowMaker } from "./fuzz-lookup.ts";

/** The real warehouse's conversion to rows, without a connection. */
export const rowMaker: RowMaker = openWarehouse({
  url: "postgres://nobody@127.0.0.1:1/nowhere",
});
