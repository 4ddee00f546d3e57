import { Client, type CustomTypesConfig } from "pg";
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Db } from "../../src/load/db/db.ts";
import { openWarehouse } from "../support/bound-load.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";
import { routeTo } from "../support/pgbouncer.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { clear, type Context, type TextRow } from "./suite/context.ts";

const BOOL = 16;

const asText = (text: string): string => text;
const asBoolean = (text: string): string => (text === "t" ? "true" : "false");

/** A session that reads every value as text. */
export async function connectAsText(url: string): Promise<Client> {
  const client = new Client({
    connectionString: url,
    // The cast covers the overloads of getTypeParser; only text is used.
    types: {
      getTypeParser: ((oid: number) =>
        oid === BOOL ? asBoolean : asText) as CustomTypesConfig["getTypeParser"],
    },
  });
  client.on("error", () => {});
  await client.connect();
  await client.query("SET TimeZone = 'UTC'; SET client_min_messages = warning");
  return client;
}

/** A warehouse under test in Postgres. */
export interface PostgresContext extends Context {
  readonly database: TestDatabase;
  /** Address that the warehouse uses. */
  readonly url: string;
  /** Address of the database itself. */
  readonly directUrl: string;
  readonly client: Client;
}

/** Opens the default schemas of a database, for the functions behind the warehouse. */
export function openDefaultDb(url: string): Db {
  return openWarehouse({ url }).db;
}

/** Opens a warehouse in a separate database. */
export async function openPostgresContext(
  options: {
    readonly schema?: string;
    readonly opsSchema?: string;
    readonly stateSchema?: string;
    readonly prepare?: string;
  } = {},
): Promise<PostgresContext> {
  const isDefault = !options.schema && !options.opsSchema && !options.stateSchema && !options.prepare;
  const database = isDefault ? await takeMigratedDatabase() : await createDatabase();
  const client = await connectAsText(database.url);
  if (options.prepare) await client.query(options.prepare);
  const url = routeTo(database.url);
  const {
    schema = "person_data",
    opsSchema = "person_data_ops",
    stateSchema = "person_data_state",
  } = options;
  const warehouse = openWarehouse({ url, schema, opsSchema, stateSchema });
  await warehouse.migrate();
  return {
    warehouse,
    database,
    url,
    directUrl: database.url,
    client,
    async sql(text, params) {
      return (await client.query<TextRow>(text, params ? [...params] : undefined)).rows;
    },
    async close() {
      await warehouse.close();
      await client.end();
      await database.release();
    },
  };
}

/** Opens a warehouse for the tests of a file; empties it before each of them. */
export function useContext<Opened extends Context = PostgresContext>(
  // Without a type argument the default one.
  open: () => Promise<Opened> = openPostgresContext as () => Promise<never>,
): Opened {
  // Complete before the first test.
  const context = {} as Opened;
  beforeAll(async () => {
    Object.assign(context, await open());
  });
  beforeEach(() => clear(context));
  afterAll(() => context.close());
  return context;
}
