import { open } from "node:fs/promises";
import { codeOf, FixConfigurationError } from "../errors.ts";

/** A secret that is read when needed. Printing it, as JSON or otherwise, shows only its origin. */
export interface SecretReference {
  /** Origin (`environment variable X`, `file /run/secrets/key`); not secret. */
  readonly origin: string;
  /** Reads the secret; a file is read each time, so that a rotated key takes effect. */
  read(): Promise<string>;
}

/** Reason why a folder is no secret. */
export const FOLDER = "is a folder";

/** A secret file holds one line. */
const MAX_BYTES = 64 * 1024;

/** A secret with a known value, kept in a closure so that it can't be printed. */
export function fixedSecret(origin: string, value: string): SecretReference {
  return { origin, read: async () => value };
}

/** A secret in a file. */
export function fileSecret(path: string): SecretReference {
  return {
    origin: `file ${path}`,
    async read() {
      const content = await readSecretFile(path);
      if ("value" in content) return content.value;
      throw new FixConfigurationError(
        "unreadable_secret",
        `the secret in ${path}: the file ${content.message}`,
      );
    },
  };
}

/** Reads a secret from a file, and whether other users can read it; or returns the reason why it can't be used. */
export async function readSecretFile(
  path: string,
): Promise<{ readonly value: string; readonly isShared: boolean } | { readonly message: string }> {
  try {
    await using handle = await open(path);
    const stats = await handle.stat();
    if (stats.isDirectory()) return { message: FOLDER };
    if (stats.size > MAX_BYTES) return { message: "is larger than 64 KiB, the maximum size of a secret" };
    const value = (await handle.readFile("utf8")).trim();
    if (value === "") return { message: "is empty" };
    if (/[\r\n]/.test(value)) return { message: "has more than one line" };
    return { value, isShared: process.platform !== "win32" && (stats.mode & 0o004) !== 0 };
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return { message: "does not exist" };
    if (code === "EACCES") return { message: "is not readable by this user" };
    return { message: `can't be read (${code ?? "unknown reason"})` };
  }
}
