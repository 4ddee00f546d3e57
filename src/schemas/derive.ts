import type { Cell } from "./convert.ts";
import type { Column } from "./table.ts";

/** Columns computed from a text field of the same object. */
export interface Derivation {
  /** Name of the field. */
  readonly from: string;
  readonly columns: readonly Column[];
  /** Returns one cell per column; never throws. */
  readonly derive: (text: string) => readonly Cell[];
}

/** Fills the derived cells from `at` on. Cells of an absent field stay undefined, those of a null field are null. */
type DeriveCells = (cells: (Cell | undefined)[], at: number) => void;

/** Compiles derivations. @param offset index of the first field's cell */
export function deriverOf(
  derivations: readonly Derivation[],
  fieldNames: readonly string[],
  offset: number,
): DeriveCells {
  const compiled = derivations.map(({ from, columns, derive }) => ({
    source: offset + fieldNames.indexOf(from),
    derive,
    nothing: columns.map(() => null),
  }));
  return (cells, at) => {
    let next = at;
    for (const { source, derive, nothing } of compiled) {
      const text = cells[source];
      const derived = typeof text === "string" ? derive(text) : nothing;
      for (const cell of derived) cells[next++] = text === undefined ? undefined : cell;
    }
  };
}

/** Derived columns, in order. */
export function derivedColumns(derivations: readonly Derivation[]): readonly Column[] {
  return derivations.flatMap(({ columns }) => columns);
}

/** Names of the derived columns, in order. */
export function derivedNames(derivations: readonly Derivation[]): readonly string[] {
  return derivedColumns(derivations).map(({ name }) => name);
}
