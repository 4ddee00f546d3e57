import type { Config, ConnectionConfig } from "../config/config.ts";
import type { ReadSource } from "./job-type.ts";
import { connectionOf } from "./lookup/lookup-spec.ts";
import { namesOurSchemas } from "./read-source.ts";
import type { InputSource } from "../load/inputs/input-source.ts";

/** Query of a job that returns IDs. */
export interface IdQuery {
  /** The job. */
  readonly name: string;
  /** Path of the query in the configuration. */
  readonly path: string;
  readonly sql: string;
  readonly connection: ConnectionConfig | null;
  /** Column of the IDs. */
  readonly key: string;
}

/** Builds an input from a query, with the ID as key. Reads the connection's address. */
export async function idSourceOf({ name, sql, connection, key }: IdQuery): Promise<InputSource> {
  return {
    name,
    connection: connection && (await connectionOf(connection)),
    relation: { sql },
    where: null,
    orderBy: null,
    key: [key],
    normalize: false,
    fields: {},
  };
}

/** Builds the source that `check` verifies. */
export function idReadSource(query: IdQuery, config: Config): ReadSource {
  const { name, path, sql, connection } = query;
  return {
    subject: `query of ${name}`,
    path,
    isTable: false,
    isPush: true,
    isOverOurTables: connection === null && namesOurSchemas(config, sql),
    connection: connection?.name ?? null,
    open: () => idSourceOf(query),
  };
}
