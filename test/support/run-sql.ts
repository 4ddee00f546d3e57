import { Client } from "pg";

/** Runs a query in its own session. */
export async function runSql(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  // A stopping server ends the session with a separate event, after the query's error.
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}
