/** Name that the selection of lookups still uses. */
export type { Erasures as Suppression } from "./key.ts";
