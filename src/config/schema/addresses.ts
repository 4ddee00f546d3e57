import type { Complaint } from "../problems.ts";
import { isLocalHost } from "../../postgres-address.ts";
import { isEnvironmentReference, maskReferences } from "../references.ts";
import { text } from "./described.ts";

const REFERENCE_HINT = "write ${NAME} for an environment variable, or file:PATH (relative to this file)";

/** A secret: only ever a reference to where it is kept. */
export function secret() {
  return text(
    { expects: "a reference to where the secret is kept", hint: REFERENCE_HINT, isSecret: true },
    (value) => (isReference(value) ? false : literalSecret),
  );
}

const literalSecret: Complaint = {
  message: "must be a reference to where the secret is kept, not the secret itself",
  hint: `${REFERENCE_HINT}; replace a key that was in this file`,
};

function isReference(value: string): boolean {
  return isEnvironmentReference(value) || isFileReference(value);
}

/** True for `file:PATH`. */
export function isFileReference(value: string): boolean {
  return /^file:./.test(value);
}

/** The address of a Postgres database; a password in it only by reference. `embedded` where that is allowed. */
export function postgresUrl(options: { readonly allowEmbedded: boolean }) {
  const expects = `${options.allowEmbedded ? "`embedded`, or " : ""}the postgres:// address of a database, best by reference`;
  const hint = `${options.allowEmbedded ? "embedded, " : ""}\${NAME} or file:PATH`;
  return text({ expects, hint, isSecret: true }, (value) => {
    if (value === "embedded") return !options.allowEmbedded;
    if (isReference(value)) return false;
    const literal = maskReferences(value, MASK);
    const complaint = complaintOnPostgresUrl(literal);
    if (complaint) return complaint;
    return hasPassword(new URL(literal)) ? literalPassword : false;
  });
}

/** Stands for a reference inside an address, so that what is left can be looked at. */
const MASK = "65001"; // a number, so that it can stand for a port too

const literalPassword: Complaint = {
  message: "contains a password, which must not be in this file",
  hint: "write the whole address as ${NAME} or file:PATH, or only the password as ${NAME}; change this password",
};

function hasPassword(url: URL): boolean {
  const inQuery = [...url.searchParams].some(([name, value]) => /pass/i.test(name) && value !== MASK);
  return inQuery || (url.password !== "" && url.password !== MASK);
}

/** Checks the address of a Postgres database; null if it is usable. Never repeats the address. */
export function complaintOnPostgresUrl(address: string): Complaint | null {
  if (/^postgres(ql)?:\/\//.test(address) && URL.canParse(address)) return null;
  return {
    message: "is not the address of a Postgres database",
    hint: "postgresql://USER:PASSWORD@HOST:5432/DATABASE, special characters percent-encoded (%40 for @)",
  };
}

/** The address of the service without a slash at its end, or `sandbox`. */
export function serviceUrl() {
  return text(
    { expects: "`sandbox` or the https:// address of the service", hint: "without user, query or #" },
    (value) => {
      if (value === "sandbox") return false;
      const url = URL.canParse(value) ? new URL(value) : null;
      if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) return true;
      if (url.username !== "" || url.password !== "") {
        return { message: "contains a user or password", hint: "the key belongs in service.api_key" };
      }
      return url.search !== "" || url.hash !== "";
    },
  ).transform((value) => value.replace(/\/+$/, ""));
}

/** True if what is sent to this address never leaves the machine. */
export function isLoopback(url: URL): boolean {
  return isLocalHost(url.hostname.replace(/^\[(.+)\]$/, "$1"));
}

/** An address without secrets in it; http:// only to this machine. */
export function httpUrl() {
  return text(
    { expects: "an https:// address without a user in it; http:// only to this machine" },
    (value) => {
      const url = URL.canParse(value) ? new URL(value) : null;
      if (!url || url.username !== "" || url.password !== "") return true;
      return url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url));
    },
  );
}
