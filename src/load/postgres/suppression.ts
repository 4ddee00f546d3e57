import { type RawBuilder, sql } from "kysely";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { BLANKS } from "../input-fields.ts";
import { type ErasureKey, erasureKeyOf, sourceKeyPrefix } from "../subject-hash.ts";
import { quoteLiteral, type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Reads the key of the configuration; null where it has none. */
export type ReadErasureSecret = () => Promise<string | null>;

/** What a transaction has seen of erasures. */
export interface Suppression {
  readonly epoch: number;
  /** Null while nobody was erased: then nothing has to be looked up. */
  readonly key: ErasureKey | null;
}

/** Nobody was erased. */
export const noSuppression: Suppression = { epoch: 0, key: null };

/** SQLSTATE-like code of work that has to begin anew, because somebody was erased while it was done. */
export const ERASED_MEANWHILE = "erased_meanwhile";

class ErasedMeanwhileError extends Error {
  override readonly name = "ErasedMeanwhileError";
  readonly code = ERASED_MEANWHILE;
}

/** The row of `erasure_epoch`. */
export interface EpochRow {
  readonly epoch: number;
  readonly key_id: string | null;
  readonly made_key: string | null;
}

/** The key that an erasure has been made with; throws unless it is the one at hand. */
export async function keyOfEpoch(row: EpochRow, readSecret: ReadErasureSecret): Promise<ErasureKey | null> {
  if (row.key_id === null) return null;
  const secret = (await readSecret()) ?? row.made_key;
  const key = secret === null ? null : erasureKeyOf(secret);
  if (key?.id === row.key_id) return key;
  const hint =
    row.made_key === null
      ? "set it to the key that was there when people were erased"
      : "remove it: this warehouse has kept a key of its own since its first erasure";
  throw new FixConfigurationError(
    "erasure_key_mismatch",
    "The warehouse remembers erased people by hashes of another key, so this run couldn't tell them from others.",
    [
      {
        path: "privacy.erasure_key",
        message: secret === null ? "is missing" : "is not the key of this warehouse",
        hint,
      },
    ],
  );
}

/** What has been erased so far; read before anything that {@link requireSameEpoch} vouches for. */
export async function readSuppression(
  session: Session,
  names: SchemaNames,
  readSecret: ReadErasureSecret,
): Promise<Suppression> {
  const [row] = await session.rows<EpochRow>(
    sql`SELECT epoch, key_id, made_key FROM ${tableId(names, "ops", "erasure_epoch")}`,
  );
  return row ? { epoch: row.epoch, key: await keyOfEpoch(row, readSecret) } : noSuppression;
}

/**
 * Among the last statements of everything that stores people: throws when somebody was erased since, and keeps an erasure
 * waiting until the COMMIT is done. It is read this late, because an erasure that waited for whole loads, of which there is
 * always one, would wait for ever.
 */
export async function requireSameEpoch(
  session: Session,
  names: SchemaNames,
  { epoch }: Suppression,
): Promise<void> {
  const table = tableId(names, "ops", "erasure_epoch");
  const look = () => session.rows(sql`SELECT FROM ${table} WHERE epoch = ${epoch} FOR KEY SHARE`);
  if ((await look()).length > 0) return;
  // The row is made by the migration; who has removed it can't have erased anybody.
  if (epoch === 0) {
    await makeEpochRow(session, names);
    if ((await look()).length > 0) return;
  }
  throw new ErasedMeanwhileError("Somebody was erased while this was done.");
}

/** Does work anew for as long as erasures come between. */
export async function againIfErased<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (codeOf(error) !== ERASED_MEANWHILE) throw error;
    }
  }
}

/** Makes the row of `erasure_epoch` where it is missing. */
export async function makeEpochRow(session: Session, names: SchemaNames): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "erasure_epoch")} (name, epoch, key_id, made_key, _synced_at, _run_id)
    VALUES ('erasure', 0, NULL, NULL, now(), '') ON CONFLICT DO NOTHING`);
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** An address in the form in which addresses are compared (`normalizedEmail`). */
export function normalizedAddress(expression: string): string {
  const trimmed = `btrim(${expression}, ${quoteLiteral(BLANKS)})`;
  return `translate(${trimmed}, '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}

/** Conditions in SQL on what an erased person is known by. False for null. */
export interface SuppressedSql {
  pid(expression: string): RawBuilder<unknown>;
  email(expression: string): RawBuilder<unknown>;
  sourceKey(source: string, expression: string): RawBuilder<unknown>;
  /** Likewise, where the source is a value of the row too. */
  anySourceKey(source: string, expression: string): RawBuilder<unknown>;
}

/** The same hashes as `subjectHash`, from nothing but sha256, which every Postgres has. */
export function suppressedSql(names: SchemaNames, key: ErasureKey): SuppressedSql {
  const isKnown = (text: string) => sql`coalesce(
    sha256(${key.outer}::bytea || sha256(${key.inner}::bytea || convert_to(${sql.raw(text)}, 'UTF8')))
      IN (SELECT subject_hash FROM ${tableId(names, "ops", "erasure_subject")}), false)`;
  return {
    pid: (expression) => isKnown(`'pid:' || ${expression}`),
    email: (expression) => isKnown(`'email:' || ${normalizedAddress(expression)}`),
    anySourceKey: (source, expression) =>
      isKnown(`'source_key:' || octet_length(${source}) || ':' || ${source} || ':' || ${expression}`),
    sourceKey: (source, expression) => isKnown(`${quoteLiteral(sourceKeyPrefix(source))} || ${expression}`),
  };
}
