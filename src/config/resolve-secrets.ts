import { resolve } from "node:path";
import { type Complaint, type Path, type Problems, textOf } from "./problems.ts";
import { type Environment, expand, isEnvironmentReference } from "./references.ts";
import { readPostgresAddress } from "../postgres-address.ts";
import { complaintOnPostgresUrl, isFileReference, isLoopback } from "./schema/addresses.ts";
import { valueAt } from "./schema/walk.ts";
import { fileSecret, fixedSecret, readSecretFile, type SecretReference } from "./secret.ts";

/** Reads references once, to see that each leads to a usable secret; notes what is unwise. */
export interface SecretResolver {
  /** The secret behind a reference; without one a problem is added and null answered. */
  resolve(path: Path, reference: string, check: SecretCheck): Promise<SecretReference | null>;
}

/** Checks a secret; null if it is usable. The complaint must not repeat it. */
export type SecretCheck = (value: string) => Complaint | null;

/** Resolves references of the file in `folder`. */
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
      // The path itself is not repeated: a key pasted behind `file:` by mistake would be shown.
      problems.add(path, {
        message: `names a file that ${content.message}`,
        hint: `a path that doesn't begin with / starts at ${folder}`,
      });
      return null;
    }
    const complaint = check(content.value);
    if (complaint) {
      problems.add(path, complaint);
      return null;
    }
    if (content.isShared) {
      warnings.add(path, { message: "names a file that other users can read", hint: "chmod 600 it" });
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

/** A key goes into an HTTP header as it is. */
export const checkKey: SecretCheck = (value) =>
  /^[\x21-\x7e]+$/.test(value)
    ? null
    : {
        message: "refers to a key with characters that no key has",
        hint: "it is one word of ASCII characters; copy it again",
      };

/** The address that alerts are posted to; it says who may post there, so it is a secret. */
export const checkWebhook: SecretCheck = (value) => {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url))) return null;
  return {
    message: "refers to something that is no https:// address",
    hint: "http:// only to this machine: the address itself is a secret",
  };
};

/** A key of hashes that nobody may guess. */
export const checkErasureKey: SecretCheck = (value) =>
  value.length >= 16
    ? null
    : {
        message: "refers to a key of fewer than 16 characters, which could be guessed",
        hint: "create one with `openssl rand -hex 32`, and keep it: it identifies erased people",
      };

/** The address of a Postgres database; without verified TLS only to this machine, or if the user allows it. */
export function checkPostgresUrl(place: string, allowInsecure: boolean): SecretCheck {
  return (value) => {
    const complaint = complaintOnPostgresUrl(value);
    if (complaint) return { ...complaint, message: `refers to something that ${complaint.message}` };
    const { isLocal, tls } = readPostgresAddress(value);
    if (isLocal || allowInsecure || tls === null || tls === "verify") return null;
    return {
      message: "would send people's data over the network without verified TLS",
      hint: `remove sslmode (TLS is the default), or set ${place}.allow_insecure: true in a network of your own`,
    };
  };
}

/** The secrets of a configuration, each null where there is none or none is needed. */
export interface Secrets {
  readonly apiKey: SecretReference | null;
  readonly userApiKey: SecretReference | null;
  readonly warehouseUrl: SecretReference | null;
  readonly erasureKey: SecretReference | null;
  readonly connectionUrls: ReadonlyMap<string, SecretReference>;
  readonly webhook: SecretReference | null;
  readonly httpToken: SecretReference | null;
}

/** Resolves every secret of a tree that this version uses, whatever else is wrong with the tree. */
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
