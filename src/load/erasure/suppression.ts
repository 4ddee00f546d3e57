import { FixConfigurationError } from "../../errors.ts";
import { type ErasureKey, erasureKeyOf } from "./subject-hash.ts";

/** Reads the configured key; null if there is none. */
export type ReadErasureSecret = () => Promise<string | null>;

/** Erasure epoch and key as seen by a transaction. */
export interface Suppression {
  readonly epoch: number;
  /** Null if no one was erased. */
  readonly key: ErasureKey | null;
}

/** Value before the first erasure. */
export const noSuppression: Suppression = { epoch: 0, key: null };

/** The row of `erasure_key`. */
export interface EpochRow {
  readonly epoch: number;
  readonly key_id: string | null;
  readonly made_key: string | null;
}

/** Returns the key that made the stored hashes; throws if it is not available. */
export async function keyOfEpoch(row: EpochRow, readSecret: ReadErasureSecret): Promise<ErasureKey | null> {
  if (row.key_id === null) return null;
  const secret = (await readSecret()) ?? row.made_key;
  const key = secret === null ? null : erasureKeyOf(secret);
  if (key?.id === row.key_id) return key;
  const hint =
    row.made_key === null
      ? "set it to the key of the earlier erasures"
      : "remove it: this warehouse generated its own key at its first erasure";
  throw new FixConfigurationError(
    "erasure_key_mismatch",
    "The hashes of erased people were made with another key, so this run can't recognize those people.",
    [
      {
        path: "privacy.erasure_key",
        message: secret === null ? "is missing" : "is not the key of this warehouse",
        hint,
      },
    ],
  );
}
