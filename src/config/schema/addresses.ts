import type { Complaint } from "../problems.ts";
import { isLocalHost, parsePostgresUrl } from "../../postgres-address.ts";
import { isEnvironmentReference, maskReferences } from "../references.ts";
import { text } from "./described.ts";

const REFERENCE_HINT = "use ${NAME} for an environment variable, or file:PATH (relative to this file)";

const REFERENCE = String.raw`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$|^file:.`;

/** A secret, only as a reference. */
export function secret() {
  return text(
    { expects: "a reference to a secret", hint: REFERENCE_HINT, pattern: REFERENCE, isSecret: true },
    (value) => (isReference(value) ? false : /^(?:\.{0,2}|~)\//.test(value) ? pathOfSecret : literalSecret),
  );
}

const literalSecret: Complaint = {
  message: "must be a reference to a secret, not the secret itself",
  hint: `${REFERENCE_HINT}; revoke a key that was in this file`,
};

const pathOfSecret: Complaint = {
  message: "must be a reference to a secret",
  hint: "write file: before the path of a file",
};

function isReference(value: string): boolean {
  return isEnvironmentReference(value) || isFileReference(value);
}

/** True for `file:PATH`. */
export function isFileReference(value: string): boolean {
  return /^file:./.test(value);
}

/** Address of a Postgres database; a password only as a reference. Also `embedded` if allowed. */
export function postgresUrl(options: { readonly allowEmbedded: boolean }) {
  const expects = `${options.allowEmbedded ? "`embedded`, or " : ""}the postgres:// address of a database, preferably as a reference`;
  const hint = `${options.allowEmbedded ? "embedded, " : ""}\${NAME} or file:PATH`;
  const pattern = `${options.allowEmbedded ? "^embedded$|" : ""}${REFERENCE}|^postgres(?:ql)?://`;
  return text({ expects, hint, pattern, isSecret: true }, (value) => {
    if (value === "embedded") return !options.allowEmbedded;
    if (isReference(value)) return false;
    const literal = maskReferences(value, MASK);
    const complaint = complaintOnPostgresUrl(literal);
    if (complaint) return complaint === unescaped ? literalPassword : complaint;
    const url = parsePostgresUrl(literal);
    return url && hasPassword(url) ? literalPassword : false;
  });
}

/** Replaces a reference inside an address, to validate the rest. */
const MASK = "65001"; // a number, because the reference may be the port

const literalPassword: Complaint = {
  message: "contains a password, which must not be in this file",
  hint: "use a reference for the whole address: ${NAME} or file:PATH, or only for the password: ${NAME}; change this password",
};

function hasPassword(url: URL): boolean {
  const inQuery = [...url.searchParams].some(([name, value]) => /pass/i.test(name) && value !== MASK);
  return inQuery || (url.password !== "" && url.password !== MASK);
}

/** Checks the address of a Postgres database; null if valid. Never repeats the address. */
export function complaintOnPostgresUrl(address: string): Complaint | null {
  const form = "postgresql://USER:PASSWORD@HOST:5432/DATABASE";
  if (!/^postgres(ql)?:\/\//.test(address)) {
    const hint = address.startsWith("jdbc:postgresql:") ? `remove jdbc: ${form}` : `write ${form}`;
    return { message: "is not the address of a Postgres database", hint };
  }
  const several = /^\w+:\/\/(?:[^/?#]*@|(?![^/?#]*@))[^/?#@]*,|[?&]host=[^&]*(?:,|%2c)/i;
  if (several.test(address)) {
    return {
      message: "names several hosts",
      hint: "name one: the primary server, or the proxy in front of it",
    };
  }
  const url = parsePostgresUrl(address);
  if (url?.searchParams.has("service")) {
    return { message: "names a service of libpq, whose file is not read", hint: `write ${form}` };
  }
  if (url && !hasUnescaped(url)) return null;
  return address.includes("@")
    ? unescaped
    : { message: "is not the address of a Postgres database", hint: `write ${form}` };
}

const unescaped: Complaint = {
  message: "has unescaped special characters in its password",
  hint: "percent-encode them: %40 for @, %23 for #, %2F for /, %3F for ?, %25 for %",
};

/** True if a special character of the password was read as the end of the host. */
function hasUnescaped(url: URL): boolean {
  const isBehindHost =
    url.hash !== "" ||
    url.pathname.includes("@") ||
    [...url.searchParams.keys()].some((key) => key.includes("@"));
  return isBehindHost || /%(?![0-9a-f]{2})/i.test(url.username + url.password);
}

/** Address of the service without a trailing slash, or `sandbox`. */
export function serviceUrl() {
  return text(
    {
      expects: "`sandbox` or the https:// address of the service",
      hint: "without user, query or #",
      pattern: "^sandbox$|^[Hh][Tt][Tt][Pp][Ss]?:",
    },
    (value) => {
      if (value === "sandbox") return false;
      const url = URL.canParse(value) ? new URL(value) : null;
      if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) {
        return value.includes("://")
          ? true
          : {
              message: "must be `sandbox` or the https:// address of the service",
              hint: "write https:// before it",
            };
      }
      const endpoint = /\/(?:v\d+|person-search|usage)(?:\/|$)/.exec(url.pathname);
      if (endpoint)
        return { message: "contains the path of an endpoint", hint: `end it before ${endpoint[0]}` };
      if (url.username !== "" || url.password !== "") {
        return { message: "contains a user or password", hint: "the key belongs in service.api_key" };
      }
      return url.search !== "" || url.hash !== "";
    },
  ).transform((value) => value.replace(/\/+$/, ""));
}

/** True if requests to this address never leave the machine. */
export function isLoopback(url: URL): boolean {
  return isLocalHost(url.hostname.replace(/^\[(.+)\]$/, "$1"));
}

/** An address without secrets in it; http:// only to this machine. */
export function httpUrl() {
  return text(
    { expects: "an https:// address without credentials; http:// only to this machine" },
    (value) => {
      const url = URL.canParse(value) ? new URL(value) : null;
      if (!url || url.username !== "" || url.password !== "") return true;
      return url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url));
    },
  );
}
