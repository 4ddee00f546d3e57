import { dirname, resolve } from "node:path";
import { z } from "zod";
import { recordsFor } from "../money.ts";
import type {
  BudgetConfig,
  Config,
  ConnectionConfig,
  DestinationConfig,
  InputConfig,
  JobConfig,
  MembersSource,
} from "./config.ts";
import type { NamedSearch } from "./schema/inputs.ts";
import { dependenciesOf, type Reference } from "./part-references.ts";
import type { Secrets } from "./resolve-secrets.ts";
import type { ConfigDocument } from "./schema/document.ts";

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
    (name, { connection, source, ...input }): InputConfig => ({
      name,
      ...input,
      source: source.kind === "search" ? membersOf(document, source) : source,
      connection: connectionOf(connection),
    }),
  );
  return {
    ...document,
    ...surroundings,
    service: {
      ...called,
      ca: service.ca && resolve(dirname(surroundings.file), service.ca),
      apiKey: secrets.apiKey,
      userApiKey: secrets.userApiKey,
    },
    warehouse: { ...warehouse, url: secrets.warehouseUrl ?? "embedded" },
    budgets: mapEntries(document.budgets, (name, limits) =>
      buildBudget(limits, document.prices?.perRecord[name]),
    ),
    privacy: { ...document.privacy, erasureKey: secrets.erasureKey },
    alerts: alerts && secrets.webhook && { ...alerts, webhook: secrets.webhook },
    http: { ...document.http, token: secrets.httpToken },
    publish: Object.entries(document.publish).map(([name, entry]) =>
      buildDestination(name, entry, surroundings),
    ),
    connections,
    inputs,
    jobs: Object.entries(document.jobs).map(([name, job]): JobConfig => {
      const before = dependenciesOf(references).filter((dependency) => dependency.job === name);
      const links = {
        ...("input" in job ? { input: inputs[String(job.input)] } : {}),
        ...("connection" in job ? { connection: connectionOf(job.connection as string | null) } : {}), // as declared
      };
      return { ...job, ...links, name, after: [...new Set(before.map(({ waitsFor }) => waitsFor))] };
    }),
  };
}

const searching = z.object({ searches: z.record(z.string(), z.object({ query: z.string() })) });

/** Completes the members of a search by its query, as configured. */
function membersOf({ jobs, warehouse }: ConfigDocument, { job, search }: NamedSearch): MembersSource {
  const query = searching.parse(jobs[job]).searches[search]?.query;
  if (query === undefined) throw new Error(`job ${job} has no search ${search}`);
  return { kind: "members", schema: warehouse.schema, query };
}

type BudgetDocument = ConfigDocument["budgets"][string];

/** Converts amounts of money to records. */
function buildBudget({ perDay, perMonth }: BudgetDocument, price: string | undefined): BudgetConfig {
  const records = (limit: BudgetDocument["perDay"]) => {
    if (limit === null || typeof limit !== "object") return limit;
    if (price === undefined) throw new Error("a budget in money has no price, which a rule refuses");
    return recordsFor(String(limit.amount), price);
  };
  const amounts = Object.entries({ day: perDay, month: perMonth }).flatMap(([period, limit]) =>
    limit !== null && typeof limit === "object" ? [[period, String(limit.amount)] as const] : [],
  );
  return { perDay: records(perDay), perMonth: records(perMonth), amounts: Object.fromEntries(amounts) };
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
