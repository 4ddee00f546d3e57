import { z } from "zod";
import { type SettingProblem } from "../problems.ts";
import { suggest } from "../../suggest.ts";
import { isEnvironmentReference, maskReferences } from "../variables.ts";
import { setting, type PartName, text } from "./settings.ts";
import { isLocalHost, parsePostgresUrl } from "../../postgres-address.ts";
import { spellZone } from "../../schedule/zone.ts";

const REFERENCE_HINT = "use ${NAME} for an environment variable, or file:PATH (relative to this file)";

const REFERENCE = String.raw`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$|^file:.`;

/** A secret, only as a reference. */
export function secret() {
  return text(
    { expects: "a reference to a secret", hint: REFERENCE_HINT, pattern: REFERENCE, isSecret: true },
    (value) => (isReference(value) ? false : /^(?:\.{0,2}|~)\//.test(value) ? pathOfSecret : literalSecret),
  );
}

const literalSecret: SettingProblem = {
  message: "must be a reference to a secret, not the secret itself",
  hint: `${REFERENCE_HINT}; revoke a key that was in this file`,
};

const pathOfSecret: SettingProblem = {
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
    if (!/^postgres(?:ql)?:/.test(value)) {
      const isMisspelled = options.allowEmbedded && suggest(value, ["embedded"]) !== null;
      return isMisspelled ? { message: `must be ${expects}`, hint: "did you mean embedded?" } : true;
    }
    const literal = maskReferences(value, MASK);
    const problem = problemOfPostgresUrl(literal);
    if (problem) return problem === unescaped ? literalPassword : problem;
    const url = parsePostgresUrl(literal);
    return url && hasPassword(url) ? literalPassword : false;
  });
}

/** Replaces a reference inside an address, to validate the rest; a number, because the reference may be the port. */
const MASK = "65001";

const literalPassword: SettingProblem = {
  message: "contains a password, which must not be in this file",
  hint: "use a reference for the whole address: ${NAME} or file:PATH, or only for the password: ${NAME}; change this password",
};

function hasPassword(url: URL): boolean {
  const inQuery = [...url.searchParams].some(([name, value]) => /pass/i.test(name) && value !== MASK);
  return inQuery || (url.password !== "" && url.password !== MASK);
}

/** Checks the address of a Postgres database; null if valid. Never repeats the address. */
export function problemOfPostgresUrl(address: string): SettingProblem | null {
  const form = "postgresql://USER:PASSWORD@HOST:5432/DATABASE";
  if (!/^postgres(ql)?:\/\//.test(address)) {
    const hint = address.startsWith("jdbc:postgresql:") ? `remove jdbc: ${form}` : `write ${form}`;
    return { message: "is not a postgresql:// URL", hint };
  }
  const severalHosts = /^\w+:\/\/(?:[^/?#]*@|(?![^/?#]*@))[^/?#@]*,|[?&]host=[^&]*(?:,|%2c)/i;
  if (severalHosts.test(address)) {
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
  return address.includes("@") ? unescaped : { message: "is not a postgresql:// URL", hint: `write ${form}` };
}

const unescaped: SettingProblem = {
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
      isHidden: true,
    },
    (value) => {
      if (value === "sandbox") return false;
      const url = URL.parse(value);
      if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) {
        return value.includes("://")
          ? true
          : {
              message: "must be `sandbox` or the https:// address of the service",
              hint: suggest(value, ["sandbox"]) ? "did you mean sandbox?" : "write https:// before it",
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
      const url = URL.parse(value);
      if (!url || url.username !== "" || url.password !== "") return true;
      return url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url));
    },
  );
}

/** A time zone by its IANA name, in any case. */
export function timezone() {
  return text(
    { expects: "an IANA time zone", hint: "for example UTC, Europe/Berlin or America/Chicago" },
    (value) => {
      if (!/^[A-Za-z]/.test(value)) return true;
      try {
        return new Intl.DateTimeFormat("en", { timeZone: value }).resolvedOptions().timeZone === "";
      } catch {
        const zones = Intl.supportedValuesOf("timeZone");
        const meant =
          suggest(value, zones) ?? zones.find((zone) => zone.endsWith(`/${value.replaceAll(" ", "_")}`));
        return meant === undefined ? true : { message: "is not a time zone", hint: `did you mean ${meant}?` };
      }
    },
  ).transform(spellZone);
}

const writeAsDay: SettingProblem = {
  message: "must be a day such as 2026-01-31",
  hint: "write year, month and day as YYYY-MM-DD",
};

const noSuchDay: SettingProblem = {
  message: "is a day that doesn't exist",
  hint: "write a day of the calendar as YYYY-MM-DD",
};

export function day() {
  return text({ expects: "a day such as 2026-01-31", pattern: String.raw`^\d{4}-\d{2}-\d{2}$` }, (value) => {
    if (!/^\d{4}-\d{2}-\d{2}$/.test(value)) return writeAsDay;
    const date = new Date(`${value}T00:00:00Z`);
    return Number.isNaN(date.getTime()) || date.toISOString().slice(0, 10) !== value ? noSuchDay : false;
  });
}

export function uuid() {
  return setting(z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i), {
    expects: "a UUID",
    hint: "as in 123e4567-e89b-12d3-a456-426614174000",
  }).transform((value) => value.toLowerCase());
}

/** Name of a schema to create: lower case, so that SQL doesn't need quotes. */
export function schemaName() {
  return text(
    {
      expects: "a schema name of at most 63 lowercase letters, digits and _",
      hint: "start with a letter or _; the prefix pg_ is reserved by Postgres",
      pattern: "^[a-z_][a-z0-9_]{0,62}$",
    },
    (value) => /^(pg_|information_schema$)/.test(value),
  );
}

/** Name of a column, exactly as the database stores it. */
export function columnName() {
  return text(
    { expects: "the name of a column", hint: "exactly as the database stores it, at most 63 bytes" },
    (value) => Buffer.byteLength(value) > 63 || value.includes("\0"),
  );
}

export function inputName() {
  return text({ expects: "the name of an input", names: { part: "input" } });
}

export function connectionName() {
  return text({ expects: "the name of a connection", names: { part: "connection" } });
}

/** Name of a job that runs first, of one of the given types if specified. */
export function jobName(named: Omit<PartName, "part"> = {}) {
  const types = (named.jobTypes ?? [""]).join(" or ");
  const what = types === "" ? "a job" : `${/^[aeiou]/u.test(types) ? "an" : "a"} ${types} job`;
  return text({ expects: `the name of ${what}`, names: { part: "job", ...named } });
}

/** Name of a search of the job beside it. */
export function searchName() {
  return text({ expects: "the name of a search of the job", names: { part: "search" } });
}

/** SQL text to embed in a statement. */
export function sqlText(expects: string) {
  return text({ expects, isSql: true }, (value) => {
    if (value.includes("\0")) return true;
    return /;\s*$/.test(value) ? { message: "ends with a semicolon", hint: "remove it" } : false;
  });
}

/** Parses `crm.customers` or `"My Schema"."Odd Name"`; null if invalid. */
export function parseTableName(value: string): { schema: string | null; table: string } | null {
  const part = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"\0]|"")+")`;
  const match = new RegExp(`^(?:(${part})\\.)?(${part})$`, "u").exec(value);
  if (!match) return null;
  const [schema, table] = [match[1], match[2]].map((p) =>
    p?.startsWith('"') ? p.slice(1, -1).replaceAll('""', '"') : p,
  );
  if (table === undefined || [schema, table].some((p) => Buffer.byteLength(p ?? "") > 63)) return null;
  return { schema: schema ?? null, table };
}

/** Beginning of the address of a remote file. */
export const REMOTE = /^(?:s3|gs|https?):\/\//u;

const FILE = /(?:\.(?:csv|tsv|txt|parquet|json|jsonl|ndjson)(?:\.(?:gz|zst))?)$/iu;

/** True for a path, pattern or address of files, which a connection of type duckdb reads. */
export function isFileName(value: string): boolean {
  return FILE.test(REMOTE.test(value) ? value.replace(/[?#].*$/u, "") : value);
}

/** Problem of an address of files; null if there is none, or if it is none of another machine. */
export function addressProblem(value: string): SettingProblem | null {
  if (!REMOTE.test(value)) return null;
  const url = URL.parse(value);
  if (!url || url.username !== "" || url.password !== "") {
    return {
      message: "must be an address without credentials",
      hint: "keys and tokens belong in the connection",
    };
  }
  if (url.protocol === "http:" && !isLoopback(url)) {
    return { message: "would send people's data over the network unencrypted", hint: "use https://" };
  }
  return url.protocol === "https:" && url.pathname.includes("*")
    ? { message: "has *, but the files of a web server can't be listed", hint: "add an input for each file" }
    : null;
}

/** A table, with or without its schema, or files. */
export function tableName() {
  return text(
    {
      expects: "a table such as crm.customers",
      hint: "schema.table or table, exactly as the database stores them; other names in double quotes: 'crm.\"Odd Name\"'",
    },
    (value) => {
      if (parseTableName(value) !== null) return false;
      if (isFileName(value)) return addressProblem(value) ?? false;
      return /^[\w$]+\.[\w$]+\.[\w$]+$/.test(value)
        ? {
            message: "has three parts, and must be a table such as crm.customers",
            hint: "remove the first one: the connection already names the database",
          }
        : true;
    },
  );
}
