import { pipeline } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import type { RecentBound } from "../pass-checkpoint.ts";
import type { InputSource, LookupType } from "../warehouse.ts";
import {
  describeColumns,
  keyIsUnique,
  otherPartsOf,
  type Part,
  partsOf,
  rawSelect,
  readCursorMax,
} from "./input.ts";
import { inTransaction, type Session } from "./session.ts";

/** What is known of an input once it can be read. */
export interface OpenedInput {
  /** What the job's endpoint takes. */
  readonly parts: readonly Part[];
  /** What else is mapped; empty without a shard, which alone looks at it. */
  readonly otherParts: readonly Part[];
  readonly keyIsUnique: boolean;
  readonly cursorMax: string | null;
  /** Query that yields the raw rows inside the warehouse. */
  readonly rawRows: string;
}

interface OpenOptions {
  readonly type: LookupType;
  readonly ranked: boolean;
  readonly recent: RecentBound | null;
  readonly isSharded: boolean;
}

/** Opens an input that lives in the warehouse itself. */
export async function openLocalInput(
  session: Session,
  input: InputSource,
  options: OpenOptions,
): Promise<OpenedInput> {
  const columns = await describeColumns(session, input);
  const parts = partsOf(input, options.type, columns);
  const otherParts = options.isSharded ? otherPartsOf(input, options.type, columns) : [];
  const isUnique = await keyIsUnique(session, input);
  const cursorMax = await readCursorMax(session, input);
  const rawRows = rawSelect(input, [...parts, ...otherParts], columns, options);
  return { parts, otherParts, keyIsUnique: isUnique, cursorMax, rawRows };
}

/**
 * Opens an input that lives in another database: streams its raw rows by COPY into a temporary table of this
 * transaction, so that everything after it is the same as for an input in the warehouse. Constant memory.
 */
export async function openForeignInput(
  session: Session,
  pool: pg.Pool,
  input: InputSource,
  options: OpenOptions,
): Promise<OpenedInput> {
  return inTransaction(
    pool,
    async (foreign) => {
      const opened = await openLocalInput(foreign, input, options);
      const columns = [
        "source_key text",
        ...[...opened.parts, ...opened.otherParts].map((part) => `${part.name} text`),
        ...(options.recent && input.cursor ? ["is_recent boolean"] : []),
        ...(options.ranked && input.orderBy !== null ? ["rank bigint"] : []),
      ];
      await session.client.query(`CREATE TEMP TABLE foreign_row (${columns.join(", ")}) ON COMMIT DROP`);
      await pipeline(
        foreign.client.query(copyTo(`COPY (${opened.rawRows}) TO STDOUT`)),
        session.client.query(copyFrom("COPY pg_temp.foreign_row FROM STDIN")),
      );
      await session.client.query("ANALYZE pg_temp.foreign_row");
      return { ...opened, rawRows: "SELECT * FROM pg_temp.foreign_row" };
    },
    { keep: false },
  );
}
