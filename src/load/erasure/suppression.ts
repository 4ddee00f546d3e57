import { codeOf, FixConfigurationError } from "../../errors.ts";
import { type ErasureKey, erasureKeyOf } from "./subject-hash.ts";

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

/** Code of work that has to begin anew, because somebody was erased while it was done. */
export const ERASED_MEANWHILE = "erased_meanwhile";

/** Ends work that has to begin anew. */
export class ErasedMeanwhileError extends Error {
  override readonly name = "ErasedMeanwhileError";
  readonly code = ERASED_MEANWHILE;
  constructor() {
    super("Somebody was erased while this was done.");
  }
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
