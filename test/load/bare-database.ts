import type { Client } from "pg";
import { onTestFinished } from "vitest";
import { migrations } from "../../migrations/all-migrations.ts";
import { openWarehouse, type Warehouse } from "../support/bound-load.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";
import { connectAsText } from "./postgres-context.ts";

/** Default schemas. */
export const SCHEMAS = ["person_data", "person_data_ops", "person_data_state"] as const;

/** Every migration, in order. */
export const MIGRATIONS = migrations.map(({ name }) => name);

/** Creates an empty database for the rest of the test. */
export async function freshDatabase(): Promise<TestDatabase> {
  const database = await createDatabase();
  onTestFinished(() => database.release());
  return database;
}

/** Opens a session for the rest of the test. */
export async function connect(url: string): Promise<Client> {
  const client = await connectAsText(url);
  onTestFinished(() => client.end());
  return client;
}

/** Opens a warehouse for the rest of the test. */
export function open(
  url: string,
  [schema, opsSchema, stateSchema]: readonly [string, string, string] = SCHEMAS,
): Warehouse {
  const warehouse = openWarehouse({ url, schema, opsSchema, stateSchema });
  onTestFinished(() => warehouse.close());
  return warehouse;
}

/** Creates a role that can log in to the database; returns its address. */
export async function roleIn(database: TestDatabase, rights: string) {
  const admin = await connect(database.url);
  const role = `role_${new URL(database.url).pathname.slice(1)}`;
  const name = new URL(database.url).pathname.slice(1);
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  onTestFinished(async () => {
    await admin.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
  });
  await admin.query(rights.replaceAll("ROLE", role).replaceAll("DATABASE_NAME", name));
  const url = new URL(database.url);
  url.username = role;
  url.password = "secret";
  return { url: url.href, role, name, admin };
}
