import { setTimeout as delay } from "node:timers/promises";
import { codeOf } from "../../errors.ts";
import { openAgent } from "../../http-agent.ts";
import type { SecretValue } from "../../object-store.ts";
import { observe, type OutageReport } from "../../outage-report.ts";
import type {
  IcebergSchema,
  LoadedTable,
  LoadedView,
  TableName,
  TableUpdate,
  ViewDefinition,
} from "./specification.ts";

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
  /** Reports when it doesn't respond. */
  readonly outage?: OutageReport;
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

const isMissing = (error: unknown) => error instanceof CatalogError && error.status === 404;
/** True if a requirement doesn't hold: nothing was changed. */
export const isConflict = (error: unknown) => error instanceof CatalogError && error.status === 409;

export type RestCatalog = ReturnType<typeof openCatalog>;

interface WarehouseSettings {
  /** Part of all paths, with a slash at its end. */
  readonly prefix: string;
  readonly endpoints: readonly string[] | null;
  readonly config: Readonly<Record<string, string>>;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Longest wait for an answer; catalogs write a file for each changed table first. */
const ANSWER_TIMEOUT_MS = 300_000;
/** Statuses of requests that a catalog doesn't know. */
const UNKNOWN: readonly number[] = [404, 405, 406, 501];
const MOST_TRIES = 3;
const FIRST_PAUSE_MS = 200;
const MOST_MESSAGE_CHARACTERS = 300;
/** Time before the end of a token's life at which it is replaced. */
const TOKEN_MARGIN_MS = 60_000;
const TOKEN_LIFE_S = 3600;

/** Code of a failed connection, which fetch wraps. */
const networkCodeOf = (error: unknown) =>
  codeOf(error instanceof Error ? (error.cause ?? error) : error) ?? "no response";

/** Opens a client of an Iceberg REST catalog; connects at the first request. */
export function openCatalog(options: CatalogOptions) {
  const base = options.catalog.replace(/\/+$/u, "");
  const agent = openAgent({ connections: 4, connectTimeoutMs: CONNECT_TIMEOUT_MS });
  let settings: Promise<WarehouseSettings> | null = null;
  let exchanged: { readonly token: string; readonly untilMs: number } | null = null;

  async function send(method: string, url: string, headers: Record<string, string>, body: string | null) {
    const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    const work = () => agent.fetch(url, { method, headers, body, redirect: "error", signal });
    const response = await observe(options.outage, networkCodeOf, work, ANSWER_TIMEOUT_MS);
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
      await delay(FIRST_PAUSE_MS * 4 ** (attempt - 1));
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

  async function list(kind: "tables" | "views", namespace: string): Promise<readonly string[]> {
    const names: string[] = [];
    try {
      for (let page = ""; ; ) {
        const answer = (await inWarehouse("GET", `${pathOf(kind, namespace)}${page}`)) as {
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
  }

  async function load(kind: "tables" | "views", { namespace, name }: TableName): Promise<unknown> {
    try {
      const answer = await inWarehouse("GET", pathOf(kind, namespace, name));
      if (!hasMetadata(answer)) throw new CatalogError(200, "NoMetadata", `no metadata of ${name}`);
      return answer;
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  }

  async function drop(kind: "tables" | "views", { namespace, name }: TableName): Promise<void> {
    try {
      await inWarehouse("DELETE", pathOf(kind, namespace, name));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  return {
    /** True if the catalog takes changes of several tables at once. Changes nothing. */
    async hasTransactions(): Promise<boolean> {
      const { endpoints } = await warehouse();
      if (endpoints !== null)
        return endpoints.some((endpoint) => /^POST .*\/transactions\/commit$/u.test(endpoint));
      // An older catalog, which doesn't list what it answers.
      try {
        await inWarehouse("POST", "transactions/commit", { "table-changes": [] });
        return true;
      } catch (error) {
        if (!(error instanceof CatalogError)) throw error;
        if (UNKNOWN.includes(error.status)) return false;
        // Refused for its lack of changes.
        if ([400, 409, 422].includes(error.status)) return true;
        throw error;
      }
    },

    async createNamespace(namespace: string): Promise<void> {
      try {
        await inWarehouse("POST", "namespaces", { namespace: [namespace], properties: {} });
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    },

    listTables: (namespace: string) => list("tables", namespace),

    /** Null if the table doesn't exist. */
    async loadTable(table: TableName): Promise<LoadedTable | null> {
      const loaded = (await load("tables", table)) as LoadedTable | null; // as the specification defines it
      return loaded && { ...loaded, config: { ...(await warehouse()).config, ...loaded.config } };
    },

    async createTable(
      { namespace, name }: TableName,
      schema: IcebergSchema,
      properties: Readonly<Record<string, string>>,
    ): Promise<void> {
      await inWarehouse("POST", pathOf("tables", namespace), {
        name,
        schema,
        "stage-create": false,
        properties,
      });
    },

    /** Does nothing if the table doesn't exist. */
    dropTable: (table: TableName) => drop("tables", table),

    /** True if the catalog has views, of which any may be in this namespace. */
    async hasViews(namespace: string): Promise<boolean> {
      const { endpoints } = await warehouse();
      if (endpoints !== null) return endpoints.includes("POST /v1/{prefix}/namespaces/{namespace}/views");
      // An older catalog, which doesn't list what it answers.
      try {
        await inWarehouse("GET", pathOf("views", namespace));
        return true;
      } catch (error) {
        if (error instanceof CatalogError && UNKNOWN.includes(error.status)) return false;
        throw error;
      }
    },

    listViews: (namespace: string) => list("views", namespace),

    /** Null if the view doesn't exist. */
    loadView: async (view: TableName) => (await load("views", view)) as LoadedView | null, // as the specification defines it

    async createView(
      { namespace, name }: TableName,
      { schema, version, properties }: ViewDefinition,
    ): Promise<void> {
      const body = { name, schema, "view-version": version, properties };
      await inWarehouse("POST", pathOf("views", namespace), body);
    },

    /** Does nothing if the view doesn't exist. */
    dropView: (view: TableName) => drop("views", view),

    /** Changes tables; all of them or, with a {@link CatalogError}, none. After any other error, either may be the case. */
    async commit(updates: readonly TableUpdate[]): Promise<void> {
      await inWarehouse("POST", "transactions/commit", { "table-changes": updates });
    },

    close: () => agent.close(),
  };
}

const pathOf = (kind: "tables" | "views", ...[namespace = "", ...name]: readonly string[]) =>
  ["namespaces", encodeURIComponent(namespace), kind, ...name.map(encodeURIComponent)].join("/");

const hasMetadata = (answer: unknown) =>
  typeof answer === "object" && answer !== null && "metadata" in answer && Boolean(answer.metadata);

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
  return new CatalogError(status, kind, `${tried} returned ${status} ${kind}: ${detail}`);
}
