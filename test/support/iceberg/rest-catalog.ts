import { randomUUID } from "node:crypto";
import { serve } from "../serve.ts";

type Json = Record<string, unknown>;

interface Change {
  readonly identifier: { readonly namespace: readonly string[]; readonly name: string };
  readonly requirements: readonly Json[];
  readonly updates: readonly Json[];
}

/** Metadata of a table as the catalog keeps it. */
export interface StoredMetadata extends Json {
  location: string;
  snapshots: Json[];
  refs: Record<string, Json>;
  properties: Record<string, string>;
  statistics: Json[];
}

/** Takes over a commit: answers with this status. `apply` applies the first changes, or all. */
export type CommitHook = (apply: (count?: number) => void, changes: readonly Change[]) => number;

/** A REST catalog that lists all snapshots of a table, unlike Nessie, and fails as a test wants it to. */
export interface RestCatalog {
  readonly url: string;
  /** Tables by `namespace.name`. */
  readonly tables: ReadonlyMap<string, StoredMetadata>;
  /** Registers metadata under another name, as `registerTable` does. */
  register(name: string, metadata: StoredMetadata): void;
  /** Handles the next commits, in this order. */
  readonly commits: CommitHook[];
  /** Statuses of the next requests that create a table. */
  readonly creations: number[];
  /** Statuses of the next requests that only read, or what happens after their answers. */
  readonly reads: (number | (() => void))[];
}

/** Starts a catalog for one test. `warehouse` is the address of the folder of its tables. */
export async function startRestCatalog(warehouse: string): Promise<RestCatalog> {
  const tables = new Map<string, StoredMetadata>();
  const commits: CommitHook[] = [];
  const reads: RestCatalog["reads"] = [];
  const creations: number[] = [];

  function answer(method: string, path: string, body: Json): readonly [status: number, body?: Json] {
    if (path.startsWith("/v1/config")) return [200, { endpoints: ["POST /v1/{prefix}/transactions/commit"] }];
    if (path === "/v1/namespaces") return [200, {}];
    if (path === "/v1/transactions/commit") return [commit(body["table-changes"] as readonly Change[])];
    const [, namespace = "", name = ""] = /^\/v1\/namespaces\/([^/]+)\/tables(?:\/(.+))?$/u.exec(path) ?? [];
    if (name === "" && method === "POST") {
      const failure = creations.shift();
      if (failure) return [failure];
      tables.set(`${namespace}.${String(body["name"])}`, newTable(`${warehouse}/${namespace}`, body));
      return [200, {}];
    }
    if (name === "") {
      const names = [...tables.keys()].filter((table) => table.startsWith(`${namespace}.`));
      return [200, { identifiers: names.map((table) => ({ name: table.slice(namespace.length + 1) })) }];
    }
    const metadata = tables.get(`${namespace}.${name}`);
    if (!metadata) return [404];
    if (method === "DELETE") tables.delete(`${namespace}.${name}`);
    return [200, { metadata }];
  }

  function commit(changes: readonly Change[]): number {
    const apply = (count = changes.length) => {
      for (const change of changes.slice(0, count)) {
        const name = nameOf(change);
        const metadata = structuredClone(tables.get(name));
        if (!metadata) throw new Error(`no table ${name}`);
        for (const update of change.updates) applyUpdate(metadata, update);
        tables.set(name, metadata);
      }
    };
    const hook = commits.shift();
    if (hook) return hook(apply, changes);
    if (!changes.every((change) => holds(tables.get(nameOf(change)), change.requirements))) return 409;
    apply();
    return 204;
  }

  const url = await serve((request, response, body) => {
    const { method = "", url: path = "" } = request;
    const hook = method === "GET" ? reads.shift() : undefined;
    const [status, content] =
      typeof hook === "number" ? [hook] : answer(method, path, JSON.parse(body || "{}") as Json);
    // 0: no answer at all.
    if (status === 0) request.socket.destroy();
    else response.writeHead(status).end(JSON.stringify(content ?? {}));
    if (typeof hook === "function") hook();
  });
  return {
    url,
    tables,
    register: (name, metadata) => void tables.set(name, metadata),
    commits,
    creations,
    reads,
  };
}

const nameOf = ({ identifier: { namespace, name } }: Change) => `${namespace.join(".")}.${name}`;

function newTable(folder: string, body: Json): StoredMetadata {
  const id = randomUUID();
  return {
    "format-version": 2,
    "table-uuid": id,
    location: `${folder}/${String(body["name"])}_${id}`,
    "last-sequence-number": 0,
    "last-column-id": (body["schema"] as { fields: readonly { id: number }[] }).fields.length + 100,
    "current-schema-id": 0,
    schemas: [body["schema"]],
    "default-spec-id": 0,
    "partition-specs": [{ "spec-id": 0, fields: [] }],
    "current-snapshot-id": -1,
    snapshots: [],
    refs: {},
    properties: body["properties"] as Record<string, string>,
    statistics: [],
  };
}

function holds(metadata: StoredMetadata | undefined, requirements: readonly Json[]): boolean {
  if (!metadata) return false;
  return requirements.every((requirement) => {
    switch (requirement["type"]) {
      case "assert-table-uuid":
        return metadata["table-uuid"] === requirement["uuid"];
      case "assert-current-schema-id":
        return metadata["current-schema-id"] === requirement["current-schema-id"];
      default: {
        const { "snapshot-id": id = null } = metadata.refs[String(requirement["ref"])] ?? {};
        return id === requirement["snapshot-id"];
      }
    }
  });
}

function applyUpdate(metadata: StoredMetadata, update: Json): void {
  const ids = update["snapshot-ids"] as readonly unknown[];
  switch (update["action"]) {
    case "add-snapshot": {
      const snapshot = update["snapshot"] as Json;
      metadata.snapshots.push(snapshot);
      metadata["last-sequence-number"] = snapshot["sequence-number"];
      metadata["last-updated-ms"] = snapshot["timestamp-ms"];
      break;
    }
    case "set-snapshot-ref":
      metadata.refs[String(update["ref-name"])] = { "snapshot-id": update["snapshot-id"] };
      if (update["ref-name"] === "main") metadata["current-snapshot-id"] = update["snapshot-id"];
      break;
    case "remove-snapshot-ref":
      delete metadata.refs[String(update["ref-name"])];
      break;
    case "remove-snapshots":
      metadata.snapshots = metadata.snapshots.filter(({ "snapshot-id": id }) => !ids.includes(id));
      break;
    case "remove-statistics":
      metadata.statistics = metadata.statistics.filter(
        ({ "snapshot-id": id }) => id !== update["snapshot-id"],
      );
      break;
    case "set-properties":
      Object.assign(metadata.properties, update["updates"]);
      break;
    default:
      throw new Error(`the catalog doesn't know ${String(update["action"])}`);
  }
}
