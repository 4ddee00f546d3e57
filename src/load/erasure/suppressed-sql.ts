/** Names that the selection of lookups still uses. */
export { readErasures as readSuppression } from "./key.ts";
export { erasedSql as suppressedSql, type ErasedSql as SuppressedSql } from "./naming.ts";
