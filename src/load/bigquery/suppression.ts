import { type RawBuilder, sql } from "kysely";
import { BLANKS } from "../input-fields.ts";
import { type ErasureKey, sourceKeyPrefix } from "../subject-hash.ts";
import {
  againIfErased,
  ErasedMeanwhileError,
  type EpochRow,
  keyOfEpoch,
  noSuppression,
  type ReadErasureSecret,
  type Suppression,
} from "../suppression.ts";
import { abortMessage, isAborted, isNotFound } from "./failure.ts";
import { type DatasetNames, quoteLiteral, tableId, tableText } from "./names.ts";
import type { Session } from "./session.ts";

/** What is known of erasures, read once and again only when somebody was erased since. */
export interface SuppressionReader {
  read(): Promise<Suppression>;
  /** Reads it anew, whatever is known. */
  refresh(): Promise<Suppression>;
  /** Does work with what is known; anew for as long as it finds out, by {@link requireSameEpoch}, that it isn't so any more. */
  within<Result>(work: (suppression: Suppression) => Promise<Result>): Promise<Result>;
}

/** Makes a reader. Nobody was erased before the first migration. */
export function openSuppression(session: Session, readSecret: ReadErasureSecret): SuppressionReader {
  let known: Suppression | null = null;

  async function refresh(): Promise<Suppression> {
    const row = await readEpoch(session);
    known = row ? { epoch: row.epoch, key: await keyOfEpoch(row, readSecret) } : noSuppression;
    return known;
  }

  /** Whether work failed because somebody was erased: what it had staged before may have been dropped with them. */
  async function isErasure(error: unknown): Promise<boolean> {
    if (isAborted(error, "erased_meanwhile")) return true;
    const epoch = known?.epoch;
    return isNotFound(error) && (await refresh()).epoch !== epoch;
  }

  return {
    read: async () => known ?? refresh(),
    refresh,
    within: (work) =>
      againIfErased(async () => {
        try {
          return await work(known ?? (await refresh()));
        } catch (error) {
          if (!(await isErasure(error))) throw error;
          known = null;
          throw new ErasedMeanwhileError();
        }
      }),
  };
}

/** The row of `erasure_epoch`; null before the first erasure. */
export async function readEpoch(session: Session): Promise<EpochRow | null> {
  try {
    const [row] = await session.rows<EpochRow>(
      sql`SELECT epoch, key_id, made_key FROM ${tableId(session.names, "ops", "erasure_epoch")}`,
    );
    return row ?? null;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

/**
 * Belongs into every transaction that stores people: ends it when somebody was erased since `suppression` was read. An erasure
 * changes the same rows of `job_lock` as those transactions, so that none of them commits beside it.
 */
export function requireSameEpoch(names: DatasetNames, { epoch }: Suppression): RawBuilder<unknown> {
  return sql`IF (SELECT IFNULL(MAX(epoch), 0) FROM ${tableId(names, "ops", "erasure_epoch")}) != ${epoch} THEN
    RAISE USING MESSAGE = ${sql.raw(quoteLiteral(abortMessage("erased_meanwhile")))}; END IF`;
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** An address in the form in which addresses are compared (`normalizedEmail`). */
export function normalizedAddress(expression: string): string {
  return `TRANSLATE(TRIM(${expression}, ${quoteLiteral(BLANKS)}), '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}

/** Conditions in SQL on what an erased person is known by, as plain text. False for null. */
export interface SuppressedText {
  pid(expression: string): string;
  email(expression: string): string;
  sourceKey(source: string, expression: string): string;
  /** Likewise, where the source is a value of the row too. */
  anySourceKey(source: string, expression: string): string;
  /** The hashes that those look for, null for null, and the look. */
  pidHash(expression: string): string;
  emailHash(expression: string): string;
  sourceKeyHash(source: string, expression: string): string;
  isErased(hash: string): string;
}

/** Variables of a script that hold the key: it must not stand in the text of a statement, which BigQuery keeps. */
export function declareKey(key: ErasureKey): readonly RawBuilder<unknown>[] {
  return [
    sql`_etl_erasure_inner BYTES DEFAULT ${key.inner}`,
    sql`_etl_erasure_outer BYTES DEFAULT ${key.outer}`,
  ];
}

/** The same hashes as `subjectHash`; for scripts that have {@link declareKey}. */
export function suppressedText(names: DatasetNames): SuppressedText {
  const isErased = (hash: string) =>
    `IFNULL(${hash} IN (SELECT subject_hash FROM ${tableText(names, "ops", "erasure_subject")}), FALSE)`;
  return {
    pid: (expression) => isErased(hashText(pidText(expression))),
    email: (expression) => isErased(hashText(emailText(expression))),
    anySourceKey: (source, expression) => isErased(hashText(rowText(source, expression))),
    sourceKey: (source, expression) => isErased(hashText(keyText(source, expression))),
    pidHash: (expression) => hashText(pidText(expression)),
    emailHash: (expression) => hashText(emailText(expression)),
    sourceKeyHash: (source, expression) => hashText(keyText(source, expression)),
    isErased,
  };
}

const pidText = (expression: string) => `CONCAT('pid:', ${expression})`;
const emailText = (expression: string) => `CONCAT('email:', ${normalizedAddress(expression)})`;
const rowText = (source: string, expression: string) =>
  `CONCAT('source_key:', CAST(BYTE_LENGTH(${source}) AS STRING), ':', ${source}, ':', ${expression})`;
const keyText = (source: string, expression: string) =>
  `CONCAT(${quoteLiteral(sourceKeyPrefix(source))}, ${expression})`;

/** Hashes of subjects, as `subjectHash` makes them: of PIDs, of addresses in the form in which they are compared, of rows. */
export const subjectHashes = {
  pid: (expression: string) => hashText(pidText(expression)),
  email: (expression: string) => hashText(`CONCAT('email:', ${expression})`),
  row: (source: string, expression: string) => hashText(rowText(source, expression)),
};

function hashText(text: string): string {
  const inner = `SHA256(CONCAT(_etl_erasure_inner, CAST(${text} AS BYTES)))`;
  return `SHA256(CONCAT(_etl_erasure_outer, ${inner}))`;
}
