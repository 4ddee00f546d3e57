import { open } from "node:fs/promises";
import { codeOf, FixConfigurationError } from "../errors.ts";

/** A secret that is read when it is needed. Printing it, as JSON or otherwise, shows only where it comes from. */
export interface SecretReference {
  /** Origin (`environment variable X`, `file /run/secrets/key`); safe to show. */
  readonly origin: string;
  /** The secret; a file is read anew each time, so that a rotated key is found. */
  read(): Promise<string>;
}

/** A secret file holds one line. */
const MAX_BYTES = 64 * 1024;

/** A secret whose value this process already has. The value lives in the closure, out of reach of any printer. */
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

/** The secret in a file and whether others than its owner may read it, or why it can't be used. */
export async function readSecretFile(
  path: string,
): Promise<{ readonly value: string; readonly isShared: boolean } | { readonly message: string }> {
  try {
    await using handle = await open(path);
    const stats = await handle.stat();
    if (stats.isDirectory()) return { message: "is a folder" };
    if (stats.size > MAX_BYTES) return { message: "is larger than 64 KiB: no secret is that large" };
    const value = (await handle.readFile("utf8")).trim();
    if (value === "") return { message: "is empty" };
    if (/[\r\n]/.test(value)) return { message: "has more than one line" };
    return { value, isShared: process.platform !== "win32" && (stats.mode & 0o004) !== 0 };
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ENOTDIR") return { message: "does not exist" };
    if (code === "EACCES") return { message: "may not be read by this user" };
    return { message: `can't be read (${code ?? "unknown reason"})` };
  }
}
