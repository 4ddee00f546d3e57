import { type Cell, isCalendarDay } from "./convert.ts";
import { date, type Fields, oneOf, type PiiClass, prefixed } from "./field.ts";

/** Columns computed from a text field of the same object. */
export interface Derivation<Columns extends Fields = Fields> {
  readonly from: string;
  readonly columns: Columns;
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
    nothing: Object.keys(columns).map(() => null),
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

type DerivedColumns<D extends readonly Derivation[]> = D extends readonly [
  Derivation<infer F>,
  ...infer Rest extends readonly Derivation[],
]
  ? F & DerivedColumns<Rest>
  : D extends readonly []
    ? unknown
    : Fields;

export function derivedColumns<const D extends readonly Derivation[]>(derivations: D): DerivedColumns<D> {
  // Object.assign loses the names; the cast restores them.
  return Object.assign({}, ...derivations.map(({ columns }) => columns)) as DerivedColumns<D>;
}

export function derivedNames(derivations: readonly Derivation[]): readonly string[] {
  return derivations.flatMap(({ columns }) => Object.keys(columns));
}

const PARTIAL_DATE = /^\d{4}(?:-\d{2}(?:-\d{2})?)?$/;

const NOT_A_DATE: readonly Cell[] = [null, null];

/** Returns the first day and the precision of a year, month or day (`2019`, `2019-04`, `2019-04-01`); nulls for any other text. */
export function readPartialDate(text: string): readonly Cell[] {
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
export function partialDate<const Name extends string>(name: Name, pii: PiiClass, event: string) {
  const from = `${name}_date`;
  return {
    from,
    columns: prefixed(`${name}_` as const, {
      on: date(pii, `${event} A year or month gives its first day; null if ${from} is no possible date.`),
      precision: oneOf(["year", "month", "day"], `Precision of ${name}_on: \`year\`, \`month\` or \`day\`.`),
    }),
    derive: readPartialDate,
  };
}
