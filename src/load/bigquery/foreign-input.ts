import type { RecentBound } from "../pass-checkpoint.ts";
import type { LookupSpec } from "../warehouse.ts";
import { cursorMaxSelect, describeColumns, otherPartsOf, type Part, partsOf, rawSelect } from "./input.ts";
import type { Session } from "./session.ts";

/** How an input is read. */
export interface OpenOptions {
  readonly ranked: boolean;
  readonly recent: RecentBound | null;
  readonly isSharded: boolean;
}

/** What is known of an input once it can be read. */
export interface OpenedInput {
  /** What the job's endpoint takes. */
  readonly parts: readonly Part[];
  /** What else is mapped; empty without a shard, which alone looks at it. */
  readonly otherParts: readonly Part[];
  /** Query for the highest value of the cursor, as text; null without a cursor. */
  readonly cursorMax: string | null;
  /** Query that yields the raw rows inside the warehouse. */
  readonly rawRows: string;
  /** Lets go of what was made for it. */
  close(): Promise<void>;
}

/** Opens an input that lives in the warehouse itself. */
export async function openLocalInput(
  session: Session,
  { input, type }: LookupSpec,
  options: OpenOptions,
): Promise<OpenedInput> {
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, type, columns);
  const otherParts = options.isSharded ? otherPartsOf(input, type, columns) : [];
  return {
    parts,
    otherParts,
    cursorMax: cursorMaxSelect(input, columns),
    rawRows: rawSelect(input, [...parts, ...otherParts], columns, options),
    close: async () => {},
  };
}
