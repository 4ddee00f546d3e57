import { resolve } from "node:path";
import { type Complaint, type Path, type Problems, textOf } from "./problems.ts";
import { type Environment, expand, isEnvironmentReference } from "./references.ts";
import { readPostgresAddress } from "../postgres-address.ts";
import { complaintOnPostgresUrl, isFileReference, isLoopback } from "./schema/addresses.ts";
import { valueAt } from "./schema/walk.ts";
import { fileSecret, fixedSecret, FOLDER, readSecretFile, type SecretReference } from "./secret.ts";

/** Reads each secret once to check it; adds warnings. */
interface SecretResolver {
  /** Resolves a reference to a secret; adds a problem and returns null if it fails. */
  resolve(path: Path, reference: string, check: SecretCheck): Promise<SecretReference | null>;
}

/** Checks a secret; null if valid. The complaint must not contain the secret. */
type SecretCheck = (value: string) => Complaint | null;

/** Creates a resolver; relative paths start at `folder`. */
export function createSecretResolver(options: {
  readonly folder: string;
  readonly env: Environment;
  readonly problems: Problems;
  readonly warnings: Problems;
}): SecretResolver {
  const { folder, env, problems, warnings } = options;

  async function resolveFile(
    path: Path,
    reference: string,
    check: SecretCheck,
  ): Promise<SecretReference | null> {
    const expanded = expand(reference.slice("file:".length), env);
    if (!("text" in expanded)) {
      problems.add(path, expanded);
      return null;
    }
    const file = resolve(folder, expanded.text);
    const content = await readSecretFile(file);
    if (!("value" in content)) {
      // The path is not repeated, because it may be a key pasted after `file:` by mistake.
      problems.add(path, {
        message:
          content.message === FOLDER
            ? "refers to a folder, not a file"
            : `refers to a file that ${content.message}`,
        hint: `relative paths start at ${folder}`,
      });
      return null;
    }
    const complaint = check(content.value);
    if (complaint) {
      problems.add(path, complaint);
      return null;
    }
    if (content.isShared) {
      warnings.add(path, {
        message: "refers to a file that other users can read",
        hint: "run chmod 600 on it",
      });
    }
    return fileSecret(file);
  }

  return {
    async resolve(path, reference, check) {
      if (isFileReference(reference)) return resolveFile(path, reference, check);
      const expanded = expand(reference, env);
      const complaint = "text" in expanded ? check(expanded.text.trim()) : expanded;
      if (complaint || !("text" in expanded)) {
        if (complaint) problems.add(path, complaint);
        return null;
      }
      const origin = isEnvironmentReference(reference)
        ? `environment variable ${reference.slice(2, -1)}`
        : `${textOf(path)} of the configuration`;
      return fixedSecret(origin, expanded.text.trim());
    },
  };
}

/** Checks a key, which must be valid in an HTTP header. */
export const checkKey: SecretCheck = (value) =>
  /^[\x21-\x7e]+$/.test(value)
    ? null
    : {
        message: "refers to a key with invalid characters",
        hint: "copy it again, without blanks or line breaks",
      };

/** Checks the address of the alert webhook, which contains a secret. */
const checkWebhook: SecretCheck = (value) => {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url))) return null;
  return {
    message: "does not refer to an https:// address",
    hint: "http:// is allowed only for this machine, because the address is a secret",
  };
};

/** Checks the key of erasure hashes. */
export const checkErasureKey: SecretCheck = (value) =>
  value.length >= 16
    ? null
    : {
        message: "refers to a key of fewer than 16 characters, which can be guessed",
        hint: "create one with `openssl rand -hex 32`, and keep it: it identifies erased people",
      };

/** Checks a Postgres address. Requires verified TLS unless it is local or `allow_insecure` is set. */
function checkPostgresUrl(place: string, allowInsecure: boolean): SecretCheck {
  return (value) => {
    const complaint = complaintOnPostgresUrl(value);
    if (complaint) return { ...complaint, message: `refers to a value that ${complaint.message}` };
    const { isLocal, tls } = readPostgresAddress(value);
    if (isLocal || allowInsecure || tls === null || tls === "verify") return null;
    return {
      message: "would send people's data over the network without verified TLS",
      hint: `remove sslmode (TLS is the default), or set ${place}.allow_insecure: true in a private network`,
    };
  };
}

/** Secrets of a configuration; null if absent or not needed. */
export interface Secrets {
  readonly apiKey: SecretReference | null;
  readonly userApiKey: SecretReference | null;
  readonly warehouseUrl: SecretReference | null;
  readonly erasureKey: SecretReference | null;
  readonly connectionUrls: ReadonlyMap<string, SecretReference>;
  readonly webhook: SecretReference | null;
  readonly httpToken: SecretReference | null;
}

/** Resolves all secrets of a tree, even if the tree has other problems. */
export async function resolveSecrets(
  tree: unknown,
  connections: readonly string[],
  resolver: SecretResolver,
  problems: Problems,
): Promise<Secrets> {
  const resolveAt = async (path: Path, check: SecretCheck) => {
    const reference = valueAt(tree, path);
    return typeof reference === "string" && !problems.has(path)
      ? resolver.resolve(path, reference, check)
      : null;
  };
  const isSandbox = valueAt(tree, ["service", "base_url"]) === "sandbox";
  const isEmbedded = valueAt(tree, ["warehouse", "url"]) === "embedded";
  const checkWarehouseUrl = checkPostgresUrl(
    "warehouse",
    valueAt(tree, ["warehouse", "allow_insecure"]) === true,
  );
  const connectionUrls = new Map<string, SecretReference>();
  for (const name of connections) {
    if (valueAt(tree, ["connections", name, "type"]) !== "postgres") continue;
    const isAllowed = valueAt(tree, ["connections", name, "allow_insecure"]) === true;
    const check = checkPostgresUrl(`connections.${name}`, isAllowed);
    const url = await resolveAt(["connections", name, "url"], check);
    if (url) connectionUrls.set(name, url);
  }
  return {
    apiKey: isSandbox ? null : await resolveAt(["service", "api_key"], checkKey),
    userApiKey: isSandbox ? null : await resolveAt(["service", "user_api_key"], checkKey),
    warehouseUrl: !isEmbedded ? await resolveAt(["warehouse", "url"], checkWarehouseUrl) : null,
    erasureKey: await resolveAt(["privacy", "erasure_key"], checkErasureKey),
    connectionUrls,
    webhook: await resolveAt(["alerts", "webhook"], checkWebhook),
    httpToken: await resolveAt(["http", "token"], checkKey),
  };
}
