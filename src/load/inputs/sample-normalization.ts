import { sql } from "kysely";
import type { Session } from "../db/session.ts";
import { describeColumns, finderOf, rawSelect } from "./input.ts";
import type { InputSource } from "./input-source.ts";
import { partsOf } from "./mapped-columns.ts";
import { normalized } from "./normalize.ts";

/** Rows read for a sample. */
const SAMPLE_ROWS = 1000;

/** Effect of `normalize: true` on a sample; numbers of values. */
export interface NormalizationSample {
  readonly rows: number;
  /** Placeholders and malformed values, which are left out. */
  readonly dropped: number;
  /** Values with blanks around them, and e-mail addresses with upper case. */
  readonly cleaned: number;
}

/** Counts what `normalize: true` would do to the first rows of an input; lists of values aren't counted. */
export async function sampleNormalization(
  session: Session,
  input: InputSource,
): Promise<NormalizationSample> {
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, "enrich", finderOf(columns)).filter(({ isArray }) => !isArray);
  const query = rawSelect(input, parts, columns, { ranked: false, recent: null });
  const rows = await session.rows(
    sql.raw<Readonly<Record<string, string | null>>>(`${query} LIMIT ${SAMPLE_ROWS}`),
  );
  let dropped = 0;
  let cleaned = 0;
  for (const row of rows) {
    for (const { field, name } of parts) {
      const value = row[name] ?? "";
      const sent = normalized(field, value);
      if ("text" in sent) cleaned += sent.text === value ? 0 : 1;
      else if (sent.dropped !== "empty") dropped += 1;
    }
  }
  return { rows: rows.length, dropped, cleaned };
}
