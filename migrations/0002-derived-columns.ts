import { addColumns } from "../src/load/db/ddl.ts";
import type { SchemaNames } from "../src/load/db/names.ts";
import { derivedColumns } from "../src/schemas/derive.ts";
import { personDerivations } from "../src/schemas/person.ts";
import { columnsOf } from "../src/schemas/table.ts";

export function addDerivedColumns(names: SchemaNames): readonly string[] {
  return [...personDerivations].map(([table, ofTable]) =>
    addColumns(table, columnsOf(derivedColumns(ofTable)), names),
  );
}
