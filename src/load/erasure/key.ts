import { createHash, hash, randomBytes } from "node:crypto";
import { FixConfigurationError } from "../../errors.ts";
import { NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { Database } from "../../schemas/registry.ts";

/** Reads the configured key; null if there is none. */
export type ReadErasureSecret = () => Promise<string | null>;

/** Prepared key of hashes: HMAC-SHA256 is the hash of `outer` and the hash of `inner` and the text. */
export interface ErasureKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  /** 64 bytes each. */
  readonly inner: Buffer;
  readonly outer: Buffer;
}

const keyRow = ({ query }: Session) => query.selectFrom("state.erasure_key").select(["key_id", "made_key"]);
type KeyRow = Pick<Database["state.erasure_key"], "key_id" | "made_key">;

/** Block size of SHA-256. */
const BLOCK_BYTES = 64;

/** Prepares a secret; the same text gives the same key everywhere. */
function erasureKeyOf(secret: string): ErasureKey {
  const bytes = Buffer.from(secret, "utf8");
  const block = Buffer.alloc(BLOCK_BYTES);
  (bytes.length > BLOCK_BYTES ? createHash("sha256").update(bytes).digest() : bytes).copy(block);
  const pad = (byte: number) => Buffer.from(block.map((b) => b ^ byte));
  return {
    id: hash("sha256", `person-etl erasure key ${secret}`, "hex").slice(0, 16),
    inner: pad(0x36),
    outer: pad(0x5c),
  };
}

/** Reads the key; null if no one was erased. */
export async function readErasureKey(
  session: Session,
  readSecret: ReadErasureSecret,
): Promise<ErasureKey | null> {
  const [row] = await session.rows(keyRow(session));
  return row ? keyOfRow(row, readSecret) : null;
}

/** Counts an erasure, and creates the key if there is none. Returns the key. */
export async function beginErasure(
  session: Session,
  readSecret: ReadErasureSecret,
  erasureId: string,
): Promise<ErasureKey> {
  const stamps = { _synced_at: NOW, _run_id: erasureId };
  const first = session.query
    .insertInto("state.erasure_key")
    .values({ name: "erasure", epoch: 0, ...stamps });
  await session.change(first.onConflict((clash) => clash.doNothing()));
  const [row] = await session.rows(keyRow(session).forUpdate());
  if (!row) throw new Error("The row of erasure_key is missing.");
  const configured = row.key_id === null ? await readSecret() : null;
  const made = row.key_id === null && configured === null ? randomBytes(32).toString("hex") : row.made_key;
  const key = (await keyOfRow(row, readSecret)) ?? erasureKeyOf(configured ?? made ?? "");
  const raised = { key_id: key.id, made_key: made, ...stamps };
  await session.change(
    session.query.updateTable("state.erasure_key").set((own) => ({ epoch: own("epoch", "+", 1), ...raised })),
  );
  return key;
}

/** Returns the key that made the stored hashes; throws if it is not available. */
async function keyOfRow(row: KeyRow, readSecret: ReadErasureSecret): Promise<ErasureKey | null> {
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
