import { isUtf8 } from "node:buffer";
import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { type SettingProblem, type Path, type Problems, textOf } from "./problems.ts";
import { valueAt, mappingAt } from "./schema/settings.ts";
import { problemOfPostgresUrl, isFileReference, isLoopback } from "./schema/values.ts";
import { type Environment, expand, isEnvironmentReference } from "./variables.ts";
import { codeOf, FixConfigurationError } from "../errors.ts";
import { readPostgresAddress } from "../postgres-address.ts";

/** A secret that is read when needed. Printing it, as JSON or otherwise, shows only its origin. */
export interface SecretReference {
  /** Origin (`environment variable X`, `file /run/secrets/key`); not secret. */
  readonly origin: string;
  /** Reads the secret; a file is read each time, so that a rotated key takes effect. */
  read(): Promise<string>;
}

/** Secrets of a configuration; null if absent or not needed. */
export type Secrets = Awaited<ReturnType<typeof resolveSecrets>>;

/** Settings of destinations and connections that are secrets. */
const STORE_SECRETS = ["token", "credential", "access_key_id", "secret_access_key"];

/** Resolves all secrets of a tree, even if the tree has other problems. */
export async function resolveSecrets(context: SecretContext) {
  const { tree } = context;
  const resolveAt = (path: Path, check: SecretCheck) => resolveSecret(context, path, check);
  const resolveAddress = (...path: readonly string[]) => {
    const check = checkPostgresUrl(path.join("."), valueAt(tree, [...path, "allow_insecure"]) === true);
    return resolveAt([...path, "url"], check);
  };
  const isSandbox = valueAt(tree, ["service", "base_url"]) === "sandbox";
  const isEmbedded = valueAt(tree, ["warehouse", "url"]) === "embedded";
  const connectionUrls = new Map<string, SecretReference>();
  for (const name of Object.keys(mappingAt(tree, "connections"))) {
    if (valueAt(tree, ["connections", name, "type"]) !== "postgres") continue;
    const url = await resolveAddress("connections", name);
    if (url) connectionUrls.set(name, url);
  }
  /** Secrets of a section's entries, by entry and setting. */
  const keysOf = async (section: string) => {
    const byName = new Map<string, Readonly<Record<string, SecretReference | null>>>();
    for (const name of Object.keys(mappingAt(tree, section))) {
      const read: Record<string, SecretReference | null> = {};
      for (const key of STORE_SECRETS) read[key] = await resolveAt([section, name, key], checkKey);
      byName.set(name, read);
    }
    return byName;
  };
  return {
    apiKey: isSandbox ? null : await resolveAt(["service", "api_key"], checkKey),
    userApiKey: isSandbox ? null : await resolveAt(["service", "user_api_key"], checkKey),
    warehouseUrl: isEmbedded ? null : await resolveAddress("warehouse"),
    erasureKey: await resolveAt(["privacy", "erasure_key"], checkErasureKey),
    connectionUrls,
    publish: await keysOf("publish"),
    connections: await keysOf("connections"),
    webhook: await resolveAt(["alerts", "webhook"], checkWebhook),
    httpToken: await resolveAt(["http", "token"], checkKey),
  };
}

interface SecretContext {
  readonly tree: object;
  /** Folder at which relative paths start. */
  readonly folder: string;
  readonly env: Environment;
  readonly problems: Problems;
  readonly warnings: Problems;
}

/** Reads the secret of a setting once to check it; null without one, or if it has a problem. */
async function resolveSecret(
  context: SecretContext,
  path: Path,
  check: SecretCheck,
): Promise<SecretReference | null> {
  const { tree, folder, env, problems } = context;
  const reference = valueAt(tree, path);
  if (typeof reference !== "string" || problems.has(path)) return null;
  const refuse = ({ message, hint }: SettingProblem): null => {
    problems.add(path, message, hint);
    return null;
  };
  const isFile = isFileReference(reference);
  const expanded = expand(isFile ? reference.slice("file:".length) : reference, env);
  if (!("text" in expanded)) return refuse(expanded);
  if (!isFile) {
    const problem = check(expanded.text.trim());
    if (problem) return refuse(problem);
    const origin = isEnvironmentReference(reference)
      ? `environment variable ${reference.slice(2, -1)}`
      : `${textOf(path)} of the configuration`;
    return fixedSecret(origin, expanded.text.trim());
  }
  const file = resolve(folder, expanded.text);
  const content = await readSecretFile(file);
  if (!("text" in content)) {
    // The path is not repeated, because it may be a key pasted after `file:` by mistake.
    const hint = `relative paths start at ${folder}`;
    return refuse({ message: `refers to a file that ${content.reason}`, hint });
  }
  const problem = check(content.text);
  if (problem) return refuse(problem);
  if (content.isShared) {
    context.warnings.add(path, "refers to a file that other users can read", "run chmod 600 on it");
  }
  return fileSecret(file);
}

/** Checks a secret; null if valid. The problem must not contain the secret. */
type SecretCheck = (value: string) => SettingProblem | null;

/** A secret with a known value, kept in a closure so that it can't be printed. */
export function fixedSecret(origin: string, value: string): SecretReference {
  return { origin, read: async () => value };
}

export function fileSecret(path: string): SecretReference {
  return {
    origin: `file ${path}`,
    async read() {
      const content = await readSecretFile(path);
      if ("text" in content) return content.text;
      const message = `The secret in ${path} can't be read: the file ${content.reason}. Write the file again, or correct its path in the configuration.`;
      throw new FixConfigurationError("unreadable_secret", message);
    },
  };
}

/** Reads a secret, one line of text, or the reason why it can't be used. */
async function readSecretFile(path: string): Promise<SmallFile> {
  const found = await readSmallFile(path, 64);
  if (!("text" in found)) return found;
  const text = found.text.trim();
  if (text === "") return { reason: "is empty", code: null };
  return /[\r\n]/.test(text) ? { reason: "has more than one line", code: null } : { ...found, text };
}

/** Text of a file, or the reason why it can't be read, as the end of a sentence, with the system's code. */
type SmallFile =
  | { readonly text: string; readonly isShared: boolean }
  | { readonly reason: string; readonly code: string | null };

/** Reads a file of UTF-8 text. */
export async function readSmallFile(path: string, maxKiB: number): Promise<SmallFile> {
  try {
    await using handle = await open(path);
    const stats = await handle.stat();
    if (stats.size > maxKiB * 1024) return { reason: `is larger than ${maxKiB} KiB`, code: null };
    const bytes = await handle.readFile();
    if (!isUtf8(bytes)) return { reason: "is not UTF-8 text", code: null };
    return { text: bytes.toString("utf8"), isShared: isReadByOthers(stats) };
  } catch (error) {
    const code = codeOf(error) ?? "unknown reason";
    return { reason: REASONS[code] ?? `can't be read (${code})`, code };
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "does not exist",
  EISDIR: "is a folder",
  EACCES: "is not readable by this user",
};

/** True if the mode lets other users read a file; unknown on Windows. */
export function isReadByOthers({ mode }: { readonly mode: number }): boolean {
  return process.platform !== "win32" && (mode & 0o004) !== 0;
}

/** Checks a key, which must be valid in an HTTP header. */
const checkKey: SecretCheck = (value) =>
  /^[\x21-\x7e]+$/.test(value)
    ? null
    : {
        message: "refers to a key with invalid characters",
        hint: "copy it again, without spaces or line breaks",
      };

/** Checks the address of the alert webhook, which contains a secret. */
const checkWebhook: SecretCheck = (value) => {
  const url = URL.parse(value);
  if (url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url))) return null;
  return {
    message: "does not refer to an https:// address",
    hint: "http:// is allowed only for this machine, because the address is a secret",
  };
};

const checkErasureKey: SecretCheck = (value) =>
  value.length >= 16
    ? null
    : {
        message: "refers to a key of fewer than 16 characters, which can be guessed",
        hint: "create one with `openssl rand -hex 32`, and keep it: it identifies erased people",
      };

/** Checks a Postgres address. Requires verified TLS unless it is local or `allow_insecure` is set. */
function checkPostgresUrl(place: string, allowInsecure: boolean): SecretCheck {
  return (value) => {
    const problem = problemOfPostgresUrl(value);
    if (problem) return { ...problem, message: `refers to a value that ${problem.message}` };
    const { isLocal, tls } = readPostgresAddress(value);
    if (isLocal || allowInsecure || tls === null || tls === "verify") return null;
    return {
      message: "would send people's data over the network without verified TLS",
      hint: `remove sslmode (TLS is the default), or set ${place}.allow_insecure: true in a private network`,
    };
  };
}
