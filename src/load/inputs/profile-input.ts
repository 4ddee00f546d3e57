import { withoutBlanksAround } from "./input-fields.ts";
import type { InputSample, SampledColumn } from "./input-sample.ts";
import { type Flaw, flawOf } from "./flawed-columns.ts";
import { normalized } from "./normalize.ts";

/** Counts of a mapped column in a sample; holds no value. */
export interface ColumnProfile extends Pick<SampledColumn, "field" | "column" | "isArray" | "typeName"> {
  /** Rows with a value. */
  readonly filled: number;
  readonly values: number;
  /** Values that `normalize` leaves out as placeholders. */
  readonly placeholders: number;
  /** Values that `normalize` leaves out: addresses without `@`, phone numbers without enough digits. */
  readonly malformed: number;
  /** Values with blanks around them. */
  readonly padded: number;
  /** Addresses with capitals. */
  readonly capitals: number;
  /** Values that are sent wrongly, with what fixes them; null for none. */
  readonly flaw: Flaw | null;
}

/** Changes that `normalize: true` makes in a sample. */
export interface NormalizeEffect {
  readonly values: number;
  readonly leftOut: number;
  readonly changed: number;
  /** Distinct addresses, as sent and normalized. */
  readonly addresses: readonly [number, number];
  /** Distinct records, as sent and normalized. */
  readonly records: readonly [number, number];
}

/** Profile of an input: counts and column names, no value. */
export interface InputProfile extends Omit<InputSample, "columns"> {
  readonly columns: readonly ColumnProfile[];
  /** Sampled rows without any value to send. */
  readonly emptyRows: number;
  readonly effect: NormalizeEffect;
}

/** Counts what a sample holds. @param normalize true if the input is already normalized */
export function profileOf(sample: InputSample, normalize: boolean): InputProfile {
  const { columns, ...rest } = sample;
  const profiles = columns.map((column) => profileColumn(column, sample.engine));
  // Values of a wrong type are no evidence of placeholders.
  const sound = columns.filter((_, index) => profiles[index]?.flaw === null);
  const asSent = recordsOf(sound, sample.sampledRows, (_, text) => text);
  const clean = recordsOf(sound, sample.sampledRows, sentText);
  const all = recordsOf(columns, sample.sampledRows, normalize ? sentText : (_, text) => text);
  const counts = profiles.filter(({ flaw }) => flaw === null);
  const sum = (name: "values" | "placeholders" | "malformed") =>
    counts.reduce((total, profile) => total + profile[name], 0);
  return {
    ...rest,
    columns: profiles,
    emptyRows: all.filter((record) => record === "").length,
    effect: {
      values: sum("values"),
      leftOut: sum("placeholders") + sum("malformed"),
      changed: sound
        .flatMap(({ field, values }) =>
          values
            .flat()
            .filter(isNoBlank)
            .map((text) => [field, text] as const),
        )
        .filter(([field, text]) => ![null, text].includes(sentText(field, text))).length,
      addresses: [distinctAddresses(sound, (_, text) => text), distinctAddresses(sound, sentText)],
      records: [distinct(asSent), distinct(clean)],
    },
  };
}

/** Text that is sent for a value; null for none. */
type SentText = (field: string, text: string) => string | null;

function sentText(field: string, text: string): string | null {
  const result = normalized(field, text);
  return "text" in result ? result.text : null;
}

function isNoBlank(text: string): boolean {
  return withoutBlanksAround(text) !== "";
}

function profileColumn(column: SampledColumn, engine: InputSample["engine"]): ColumnProfile {
  const { field, typeName, isArray } = column;
  const values = column.values.flat().filter(isNoBlank);
  const results = values.map((text) => normalized(field, text));
  const dropped = (reason: string) =>
    results.filter((result) => "dropped" in result && result.dropped === reason).length;
  return {
    field,
    column: column.column,
    typeName,
    isArray,
    filled: column.values.filter((own) => own.some(isNoBlank)).length,
    values: values.length,
    placeholders: dropped("placeholder"),
    malformed: dropped("malformed"),
    padded: values.filter((text) => withoutBlanksAround(text) !== text).length,
    capitals: field === "emails" ? values.filter((text) => /[A-Z]/u.test(text)).length : 0,
    flaw: flawOf(column, values, engine),
  };
}

/** Record of each row as text, empty without a value. */
function recordsOf(columns: readonly SampledColumn[], rows: number, sent: SentText): readonly string[] {
  return Array.from({ length: rows }, (_, row) => {
    const texts = columns.flatMap(({ field, values }) =>
      (values[row] ?? []).filter(isNoBlank).flatMap((text) => {
        const own = sent(field, text);
        return own === null ? [] : [[field, own]];
      }),
    );
    return texts.length === 0 ? "" : JSON.stringify(texts);
  });
}

function distinct(records: readonly string[]): number {
  return new Set(records.filter((record) => record !== "")).size;
}

function distinctAddresses(columns: readonly SampledColumn[], sent: SentText): number {
  const addresses = columns
    .filter(({ field }) => field === "emails")
    .flatMap(({ field, values }) =>
      values
        .flat()
        .filter(isNoBlank)
        .map((text) => sent(field, text)),
    );
  return new Set(addresses.filter((address) => address !== null)).size;
}
