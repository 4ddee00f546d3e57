import { describe, expect, test } from "vitest";
import { fine, load, refusal } from "./support.ts";

const withFiles = (table: string, connection = "{ type: duckdb }") =>
  `${fine}
connections:
  files: ${connection}
  crm: { type: postgres, url: "postgresql://localhost/crm" }
`.replace("table: crm.customers", `table: ${table}\n    connection: files`);

const tableOf = async (table: string, connection?: string) =>
  (await load(withFiles(table, connection))).inputs["customers"]?.source;

describe("an input of files", () => {
  test("has a path, an address or a pattern as its table; a DuckDB file has tables", async () => {
    expect(await tableOf("leads.csv")).toEqual({ kind: "table", schema: null, table: "leads.csv" });
    expect(await tableOf('"s3://bucket/a b/*.parquet"')).toMatchObject({
      table: "s3://bucket/a b/*.parquet",
    });
    expect(await tableOf("https://example.com/a.csv.gz?sig=1")).toMatchObject({ schema: null });
    const database = "{ type: duckdb, path: crm.duckdb }";
    expect(await tableOf("crm.people", database)).toEqual({ kind: "table", schema: "crm", table: "people" });
  });

  test.each<[string, string | undefined, string, string]>([
    [
      "leads.xlsx",
      undefined,
      "inputs.customers.table",
      'is not a file that can be read (found "leads.xlsx")',
    ],
    [
      "http://example.com/a.csv",
      undefined,
      "inputs.customers.table",
      "would send people's data over the network unencrypted",
    ],
    [
      "https://ann:secret@example.com/a.csv",
      undefined,
      "inputs.customers.table",
      "must be an address without credentials",
    ],
    [
      "'https://example.com/*.csv'",
      undefined,
      "inputs.customers.table",
      "has *, but the files of a web server can't be listed",
    ],
    [
      "leads/a.csv",
      '{ type: postgres, url: "postgresql://localhost/x" }',
      "inputs.customers.table",
      "names files, which only a connection of type duckdb reads",
    ],
    [
      "a.csv",
      "{ type: duckdb, path: 'md:people' }",
      "connections.files.path",
      'must be the path or address of a file (found "md:people")',
    ],
    [
      "a.csv",
      "{ type: duckdb, token: secret }",
      "connections.files.token",
      "must be a reference to a secret, not the secret itself",
    ],
    [
      "a.csv",
      "{ type: duckdb, access_key_id: '${KEY}' }",
      "connections.files.access_key_id",
      "requires secret_access_key",
    ],
    [
      "a.csv",
      "{ type: duckdb, s3_endpoint: 'http://minio.internal' }",
      "connections.files.s3_endpoint",
      "must be an https:// address without credentials; http:// only to this machine",
    ],
  ])("%s of %s is refused at %s", async (table, connection, path, message) => {
    const { problems } = await refusal(withFiles(table, connection), { env: { KEY: "k" } });
    expect(problems).toContainEqual(expect.objectContaining({ path, message }));
    expect(JSON.stringify(problems)).not.toContain("ann:");
  });
});
