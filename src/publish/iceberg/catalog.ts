import { type Dispatcher, fetch } from "undici";
import { openAgent } from "../../http-agent.ts";

/** A secret that is read when needed. */
export interface SecretValue {
  read(): Promise<string>;
}

export interface CatalogOptions {
  /** Address of the REST catalog, without `/v1`. */
  readonly catalog: string;
  /** Warehouse in the catalog; null for its default. */
  readonly warehouse: string | null;
  /** Bearer token. */
  readonly token: SecretValue | null;
  /** `CLIENT_ID:CLIENT_SECRET` of OAuth 2. */
  readonly credential: SecretValue | null;
  /** Address that exchanges `credential` for a token; null for that of the catalog. */
  readonly tokenUrl: string | null;
  /** Scope of that token. */
  readonly scope: string;
}

/** A number of 64 bits; a bigint if JavaScript's numbers can't hold it. */
export type Long = number | bigint;

export interface IcebergField {
  readonly id: number;
  readonly name: string;
  readonly required: boolean;
  readonly type: string | ListType;
  readonly doc?: string;
}

export interface ListType {
  readonly type: "list";
  readonly "element-id": number;
  readonly element: string;
  readonly "element-required": boolean;
}

export interface IcebergSchema {
  readonly type: "struct";
  readonly "schema-id": number;
  readonly fields: readonly IcebergField[];
}

export interface Snapshot {
  readonly "snapshot-id": Long;
  readonly "parent-snapshot-id"?: Long;
  readonly "sequence-number": Long;
  readonly "timestamp-ms": number;
  readonly "manifest-list": string;
  readonly summary: Readonly<Record<string, string>>;
  readonly "schema-id": number;
}

export interface StatisticsFile {
  readonly "snapshot-id": Long;
  readonly "statistics-path": string;
}

export interface TableMetadata {
  readonly "format-version": number;
  readonly "table-uuid": string;
  readonly location: string;
  readonly "last-sequence-number": Long;
  readonly "last-column-id": number;
  readonly "current-schema-id": number;
  readonly schemas: readonly IcebergSchema[];
  readonly "default-spec-id": number;
  readonly "partition-specs": readonly { readonly "spec-id": number; readonly fields: readonly unknown[] }[];
  /** Absent, null or -1 without a snapshot. */
  readonly "current-snapshot-id"?: Long | null;
  readonly snapshots?: readonly Snapshot[];
  /** Branches and tags by name. */
  readonly refs?: Readonly<Record<string, { readonly "snapshot-id": Long }>>;
  /** Files with sketches of columns, which other engines write. */
  readonly statistics?: readonly StatisticsFile[];
  readonly "partition-statistics"?: readonly StatisticsFile[];
  readonly properties?: Readonly<Record<string, string>>;
}

export interface LoadedTable {
  readonly metadata: TableMetadata;
  /** Settings for clients, with credentials for the table's files where the catalog grants them. */
  readonly config: Readonly<Record<string, string>>;
}

export interface TableName {
  readonly namespace: string;
  readonly name: string;
}

/** Changes of a table, and what must hold for them. */
export interface TableUpdate {
  readonly identifier: { readonly namespace: readonly string[]; readonly name: string };
  readonly requirements: readonly Readonly<Record<string, unknown>>[];
  readonly updates: readonly Readonly<Record<string, unknown>>[];
}

/** An answer of the catalog that isn't a success. */
export class CatalogError extends Error {
  override readonly name = "CatalogError";
  readonly status: number;
  /** Kind of error in the catalog's words: `NoSuchTableException`. */
  readonly kind: string;
  /** True if the same request may succeed later. */
  readonly isPassing: boolean;
  constructor(status: number, kind: string, message: string) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.isPassing = status >= 500 || status === 429;
  }
}

export const isMissing = (error: unknown) => error instanceof CatalogError && error.status === 404;
/** True if a requirement doesn't hold: nothing was changed. */
export const isConflict = (error: unknown) => error instanceof CatalogError && error.status === 409;

export interface RestCatalog {
  /** True if the catalog takes changes of several tables at once. Changes nothing. */
  hasTransactions(): Promise<boolean>;
  createNamespace(namespace: string): Promise<void>;
  listTables(namespace: string): Promise<readonly string[]>;
  /** Null if the table doesn't exist. */
  loadTable(table: TableName): Promise<LoadedTable | null>;
  createTable(
    table: TableName,
    schema: IcebergSchema,
    properties: Readonly<Record<string, string>>,
  ): Promise<void>;
  dropTable(table: TableName): Promise<void>;
  /** Changes tables; all of them or, with a {@link CatalogError}, none. After any other error, either may be the case. */
  commit(updates: readonly TableUpdate[]): Promise<void>;
  close(): Promise<void>;
}

interface WarehouseSettings {
  /** Part of all paths, with a slash at its end. */
  readonly prefix: string;
  readonly endpoints: readonly string[] | null;
  readonly config: Readonly<Record<string, string>>;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Longest wait for an answer; catalogs write a file for each changed table first. */
const ANSWER_TIMEOUT_MS = 300_000;
const MOST_TRIES = 3;
const FIRST_PAUSE_MS = 200;
const MOST_MESSAGE_CHARACTERS = 300;
/** Time before the end of a token's life at which it is replaced. */
const TOKEN_MARGIN_MS = 60_000;
const TOKEN_LIFE_S = 3600;

/** Opens a client of an Iceberg REST catalog; connects at the first request. */
export function openCatalog(options: CatalogOptions): RestCatalog {
  const base = options.catalog.replace(/\/+$/u, "");
  let agent: Dispatcher | null = null;
  let settings: Promise<WarehouseSettings> | null = null;
  let exchanged: { readonly token: string; readonly untilMs: number } | null = null;

  async function send(method: string, url: string, headers: Record<string, string>, body: string | null) {
    agent ??= openAgent({ connections: 4, connectTimeoutMs: CONNECT_TIMEOUT_MS });
    const response = await fetch(url, {
      method,
      headers,
      body,
      dispatcher: agent,
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    const text = await response.text();
    if (!response.ok) throw failureOf(response.status, `${method} ${url}`, text);
    return text === "" ? {} : parseJson(text);
  }

  async function bearer(): Promise<string | null> {
    if (options.token) return options.token.read();
    if (!options.credential) return null;
    if (exchanged && Date.now() < exchanged.untilMs) return exchanged.token;
    const [id = "", ...secret] = (await options.credential.read()).split(":");
    const form = new URLSearchParams({
      grant_type: "client_credentials",
      client_id: id,
      client_secret: secret.join(":"),
      scope: options.scope,
    });
    const answer = (await send(
      "POST",
      options.tokenUrl ?? `${base}/v1/oauth/tokens`,
      { "content-type": "application/x-www-form-urlencoded" },
      form.toString(),
    )) as { readonly access_token: string; readonly expires_in?: number }; // as OAuth 2 defines it
    const lifeMs = (answer.expires_in ?? TOKEN_LIFE_S) * 1000;
    exchanged = { token: answer.access_token, untilMs: Date.now() + lifeMs - TOKEN_MARGIN_MS };
    return exchanged.token;
  }

  /** Sends a request; one that only reads again after failures that pass, and any other with a new token if the first one has ended. */
  async function request(method: string, path: string, body: unknown = null): Promise<unknown> {
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await tryRequest(method, path, body).then(
        (answer) => ({ answer }),
        (error: unknown) => ({ error }),
      );
      if ("answer" in outcome) return outcome.answer;
      const { error } = outcome;
      const isTokenOver = error instanceof CatalogError && error.status === 401 && exchanged !== null;
      const isPassing = !(error instanceof CatalogError) || error.isPassing;
      if (attempt === MOST_TRIES || !(isTokenOver || (method === "GET" && isPassing))) throw error;
      exchanged = null;
      await new Promise((resolve) => setTimeout(resolve, FIRST_PAUSE_MS * 4 ** (attempt - 1)));
    }
  }

  async function tryRequest(method: string, path: string, body: unknown): Promise<unknown> {
    const token = await bearer();
    const headers = {
      accept: "application/json",
      "x-iceberg-access-delegation": "vended-credentials",
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === null ? {} : { "content-type": "application/json" }),
    };
    return send(method, `${base}/v1/${path}`, headers, body === null ? null : jsonOf(body));
  }

  /** Settings of the warehouse, read once. */
  async function readSettings(): Promise<WarehouseSettings> {
    const query = options.warehouse === null ? "" : `?warehouse=${encodeURIComponent(options.warehouse)}`;
    const answer = (await request("GET", `config${query}`)) as {
      readonly overrides?: Readonly<Record<string, string>>;
      readonly defaults?: Readonly<Record<string, string>>;
      readonly endpoints?: readonly string[];
    }; // as the specification defines it
    const config = { ...answer.defaults, ...answer.overrides };
    const { prefix } = config;
    return { prefix: prefix ? `${prefix}/` : "", endpoints: answer.endpoints ?? null, config };
  }

  function warehouse() {
    settings ??= readSettings().catch((error: unknown) => {
      settings = null;
      throw error;
    });
    return settings;
  }

  const inWarehouse = async (method: string, path: string, body: unknown = null) =>
    request(method, `${(await warehouse()).prefix}${path}`, body);

  return {
    async hasTransactions() {
      const { endpoints } = await warehouse();
      if (endpoints !== null)
        return endpoints.some((endpoint) => /^POST .*\/transactions\/commit$/u.test(endpoint));
      // An older catalog, which doesn't list what it answers.
      try {
        await inWarehouse("POST", "transactions/commit", { "table-changes": [] });
        return true;
      } catch (error) {
        if (!(error instanceof CatalogError)) throw error;
        if ([404, 405, 406, 501].includes(error.status)) return false;
        // Refused for its lack of changes.
        if ([400, 409, 422].includes(error.status)) return true;
        throw error;
      }
    },

    async createNamespace(namespace) {
      try {
        await inWarehouse("POST", "namespaces", { namespace: [namespace], properties: {} });
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    },

    async listTables(namespace) {
      const names: string[] = [];
      try {
        for (let page = ""; ; ) {
          const answer = (await inWarehouse("GET", `${tablesPath(namespace)}${page}`)) as {
            readonly identifiers: readonly { readonly name: string }[];
            readonly "next-page-token"?: string | null;
          }; // as the specification defines it
          names.push(...answer.identifiers.map(({ name }) => name));
          const next = answer["next-page-token"];
          if (!next) return names;
          page = `?pageToken=${encodeURIComponent(next)}`;
        }
      } catch (error) {
        if (isMissing(error)) return names;
        throw error;
      }
    },

    async loadTable(table) {
      try {
        const answer = (await inWarehouse("GET", tablePath(table))) as Partial<LoadedTable>;
        if (!answer.metadata) throw new CatalogError(200, "NoMetadata", `no metadata of ${table.name}`);
        const { config } = await warehouse();
        return { metadata: answer.metadata, config: { ...config, ...answer.config } };
      } catch (error) {
        if (isMissing(error)) return null;
        throw error;
      }
    },

    async createTable({ namespace, name }, schema, properties) {
      await inWarehouse("POST", tablesPath(namespace), { name, schema, "stage-create": false, properties });
    },

    async dropTable(table) {
      await inWarehouse("DELETE", tablePath(table));
    },

    async commit(updates) {
      await inWarehouse("POST", "transactions/commit", { "table-changes": updates });
    },

    async close() {
      const last = agent;
      agent = null;
      await last?.close();
    },
  };
}

const tablesPath = (namespace: string) => `namespaces/${encodeURIComponent(namespace)}/tables`;
const tablePath = ({ namespace, name }: TableName) => `${tablesPath(namespace)}/${encodeURIComponent(name)}`;

/** Reads JSON without rounding integers of 64 bits. */
function parseJson(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) => {
    const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isRounded && /^-?\d+$/u.test(context?.source ?? "") ? BigInt(context?.source ?? 0) : value;
  });
}

/** Writes JSON with integers of 64 bits. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_key, entry: unknown) =>
    typeof entry === "bigint" ? JSON.rawJSON(entry.toString()) : entry,
  );
}

function failureOf(status: number, tried: string, text: string): CatalogError {
  let [kind, message] = ["", ""];
  try {
    const { error } = JSON.parse(text) as {
      readonly error?: { readonly type?: string; readonly message?: string };
    };
    [kind, message] = [error?.type ?? "", error?.message ?? ""];
  } catch {
    // Not the catalog's own answer.
  }
  const detail = message.slice(0, MOST_MESSAGE_CHARACTERS);
  return new CatalogError(status, kind, `${tried} was answered with ${status} ${kind}: ${detail}`);
}
