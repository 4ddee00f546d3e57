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

  test.each([
    ["leads.xlsx", 'is not a file that can be read (found "leads.xlsx")'],
    ["http://example.com/a.csv", "would send people's data over the network unencrypted"],
    ["https://ann:secret@example.com/a.csv", "must be an address without credentials"],
    ["'https://example.com/*.csv'", "has *, but the files of a web server can't be listed"],
  ])("as %s is refused", async (table, message) => {
    const { problems } = await refusal(withFiles(table));
    expect(problems).toMatchObject([{ path: "inputs.customers.table", message }]);
    expect(JSON.stringify(problems)).not.toContain("ann:");
  });

  test.each([
    ["path: 'md:people'", "path", 'must be the path or address of a file (found "md:people")'],
    ["token: secret", "token", "must be a reference to a secret, not the secret itself"],
    ["access_key_id: '${KEY}'", "access_key_id", "requires secret_access_key"],
    [
      "s3_endpoint: 'http://minio.internal'",
      "s3_endpoint",
      "must be an https:// address without credentials; http:// only to this machine",
    ],
  ])("with a connection of %s is refused", async (setting, key, message) => {
    const { problems } = await refusal(withFiles("a.csv", `{ type: duckdb, ${setting} }`), {
      env: { KEY: "k" },
    });
    expect(problems).toContainEqual(expect.objectContaining({ path: `connections.files.${key}`, message }));
  });

  test("is none of another connection", async () => {
    const crm = '{ type: postgres, url: "postgresql://localhost/x" }';
    expect((await refusal(withFiles("leads/a.csv", crm))).problems).toMatchObject([
      { message: "names files, which only a connection of type duckdb reads" },
    ]);
  });
});
