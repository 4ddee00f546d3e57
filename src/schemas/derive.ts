import { type Cell, isCalendarDay } from "./convert.ts";
import type { PiiClass } from "./field.ts";
import { type Column, column } from "./table.ts";

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

const PARTIAL_DATE = /^\d{4}(?:-\d{2}(?:-\d{2})?)?$/;

/** Length of the longest text that is a date. */
const LONGEST = 10;

const NOT_A_DATE: readonly Cell[] = [null, null];

/** Returns the first day and the precision of a year, month or day (`2019`, `2019-04`, `2019-04-01`); nulls for any other text. */
export function readPartialDate(text: string): readonly Cell[] {
  if (text.length > LONGEST) return NOT_A_DATE;
  if (!PARTIAL_DATE.test(text)) return NOT_A_DATE;
  const [day, precision] =
    text.length === 4
      ? [`${text}-01-01`, "year"]
      : text.length === 7
        ? [`${text}-01`, "month"]
        : [text, "day"];
  const isDay = isCalendarDay(Number(day.slice(0, 4)), Number(day.slice(5, 7)), Number(day.slice(8)));
  return isDay ? [day, precision] : NOT_A_DATE;
}

/** Declares `X_on` and `X_precision` of a field `X_date`. @param event what happened on that day, as a sentence */
export function partialDate(from: string, pii: PiiClass, event: string): Derivation {
  const name = from.replace(/_date$/, "");
  return {
    from,
    columns: [
      column(
        `${name}_on`,
        "date",
        pii,
        `${event} A year or month gives its first day; null if ${from} is no possible date.`,
      ),
      column(`${name}_precision`, "text", "none", `Precision of ${name}_on: \`year\`, \`month\` or \`day\`.`),
    ],
    derive: readPartialDate,
  };
}
