import { dirname, resolve } from "node:path";
import type { Config, ConnectionConfig, DestinationConfig, InputConfig, JobConfig } from "./config.ts";
import type { Reference } from "./part-references.ts";
import type { Secrets } from "./resolve-secrets.ts";
import { laterJobTypes, type ConfigDocument } from "./schema/document.ts";

/** Settings from outside the document. */
export type Surroundings = Pick<Config, "file" | "warnings" | "logLevel" | "dataDir" | "lockLifeMs">;

/** Links a document that has passed the schema and all rules. */
export function buildConfig(
  document: ConfigDocument,
  references: readonly Reference[],
  secrets: Secrets,
  surroundings: Surroundings,
): Config {
  const { service, alerts } = document;
  const { allowInsecure: _allowed, ...called } = service;
  const { type: _type, ...warehouse } = document.warehouse;
  const connections = mapEntries(document.connections, (name, connection) =>
    buildConnection(name, connection, secrets, surroundings),
  );
  const connectionOf = (name: string | null) => (name === null ? null : (connections[name] ?? null));
  const inputs = mapEntries(
    document.inputs,
    (name, { connection, ...input }): InputConfig => ({
      name,
      ...input,
      connection: connectionOf(connection),
    }),
  );
  const jobs = Object.entries(document.jobs).filter(([, { type }]) => !laterJobTypes.includes(type));
  return {
    ...document,
    ...surroundings,
    service: { ...called, apiKey: secrets.apiKey, userApiKey: secrets.userApiKey },
    warehouse: { ...warehouse, url: secrets.warehouseUrl ?? "embedded" },
    privacy: { ...document.privacy, erasureKey: secrets.erasureKey },
    alerts: alerts && secrets.webhook && { ...alerts, webhook: secrets.webhook },
    http: { ...document.http, token: secrets.httpToken },
    publish: Object.entries(document.publish).map(([name, entry]) =>
      buildDestination(name, entry, surroundings),
    ),
    connections,
    inputs,
    jobs: jobs.map(([name, job]): JobConfig => {
      const before = references.filter(({ path, names }) => path[1] === name && names.part === "job");
      const links = {
        ...("input" in job ? { input: inputs[String(job.input)] } : {}),
        ...("connection" in job ? { connection: connectionOf(job.connection as string | null) } : {}), // as declared
      };
      return { ...job, ...links, name, after: [...new Set(before.map((reference) => reference.name))] };
    }),
  };
}

function mapEntries<T, R>(
  section: Readonly<Record<string, T>>,
  build: (name: string, entry: T) => R,
): Readonly<Record<string, R>> {
  return Object.fromEntries(Object.entries(section).map(([name, entry]) => [name, build(name, entry)]));
}

function buildConnection(
  name: string,
  connection: ConfigDocument["connections"][string],
  secrets: Secrets,
  { file }: Surroundings,
): ConnectionConfig {
  if (connection.type === "bigquery") {
    const { credentials, ...rest } = connection;
    return { name, ...rest, credentialsFile: credentialsFileOf(credentials, file) };
  }
  const url = secrets.connectionUrls.get(name);
  if (!url) throw new Error(`connection ${name} has no address`);
  return { name, type: "postgres", url, allowInsecure: connection.allowInsecure };
}

function buildDestination(
  name: string,
  destination: ConfigDocument["publish"][string],
  { file }: Surroundings,
): DestinationConfig {
  if (destination.type === "duckdb") {
    return { ...destination, name, path: resolve(dirname(file), destination.path) };
  }
  const { credentials, ...rest } = destination;
  return { name, ...rest, credentialsFile: credentialsFileOf(credentials, file) };
}

/** Absolute path of a key file; null for Application Default Credentials. */
function credentialsFileOf(credentials: string, file: string): string | null {
  return credentials === "adc" ? null : resolve(dirname(file), credentials.slice("file:".length));
}
