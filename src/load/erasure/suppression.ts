import { FixConfigurationError } from "../../errors.ts";
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

/** The row of `erasure_key`. */
export interface EpochRow {
  readonly epoch: number;
  readonly key_id: string | null;
  readonly made_key: string | null;
}

/** Returns the key of the stored hashes; throws if it is not available. */
export async function keyOfEpoch(row: EpochRow, readSecret: ReadErasureSecret): Promise<ErasureKey | null> {
  if (row.key_id === null) return null;
  const secret = (await readSecret()) ?? row.made_key;
  const key = secret === null ? null : erasureKeyOf(secret);
  if (key?.id === row.key_id) return key;
  const hint =
    row.made_key === null
      ? "set it to the key that people were erased with"
      : "remove it: this warehouse made its own key at its first erasure";
  throw new FixConfigurationError(
    "erasure_key_mismatch",
    "The hashes of erased people were made with another key, so this run could not keep those people out.",
    [
      {
        path: "privacy.erasure_key",
        message: secret === null ? "is missing" : "is not the key of this warehouse",
        hint,
      },
    ],
  );
}
