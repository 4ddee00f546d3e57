import type { Table, TableColumn } from "../../load/inputs/browse.ts";
import { wordsOf } from "./recognize-column.ts";

/** A proposed setting and its reason, for people. */
export interface Proposal<Value> {
  readonly value: Value;
  readonly reason: string;
}

const ID_WORDS = /^(?:id|uuid|guid|nr|no|number|nummer|key|code|pk|sk)$/u;

/** Proposes the key: the primary key, else a unique index, else a column that is named like one. */
export function proposeKey(table: Table): Proposal<readonly string[]> | null {
  const { columns, uniqueKeys } = table;
  const primary = uniqueKeys.find((key) => key.isPrimary);
  if (primary) return { value: primary.columns, reason: "primary key" };
  const unique = uniqueKeys.find((key) => !key.isNullable);
  if (unique) return { value: unique.columns, reason: "unique" };
  const [loose] = uniqueKeys;
  if (loose) return { value: loose.columns, reason: "unique, but rows with NULL are rejected" };
  const named = columns
    .filter(({ category, typeName }) => category === "N" || category === "S" || typeName === "uuid")
    .filter(({ name }) => ID_WORDS.test(wordsOf(name).at(-1) ?? ""))
    .toSorted((a, b) => rankOfId(a, table) - rankOfId(b, table));
  const [first] = named;
  return first ? { value: [first.name], reason: "not known to be unique" } : null;
}

/** `id`, then the table's own (`customer_id` of `customers`), then others in their order. */
function rankOfId({ name }: TableColumn, table: Table): number {
  const words = wordsOf(name);
  if (words.length === 1) return 0;
  const stem = words[0]?.slice(0, 4) ?? "";
  return wordsOf(table.name).some((word) => word.startsWith(stem)) ? 1 : 2;
}
