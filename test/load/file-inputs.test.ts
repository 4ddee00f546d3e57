import { appendFile, mkdir, mkdtemp, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { DuckDBInstance } from "@duckdb/node-api";
import { beforeEach, describe, expect, inject, test } from "vitest";
import type { DuckDbConnection, InputQuery, InputSource } from "../../src/load/inputs/input.ts";
import { openInputDatabase } from "../../src/load/open.ts";
import { filesIn } from "../support/files-in.ts";
import { serve } from "../support/serve.ts";
import { openDuckDbMirror } from "./duckdb-mirror.ts";
import { describeForeignInputs } from "./foreign-context.ts";
import { people } from "./suite/people.ts";

describeForeignInputs("a DuckDB file", openDuckDbMirror);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(inject("runFolder"), "files-"));
});

const input = (table: string, changes: Partial<InputSource> = {}): InputSource => ({
  ...people,
  name: "leads",
  relation: { table: [table] },
  key: ["id"],
  fields: { first_name: ["name"], zipcode: ["zip"], emails: ["email"] },
  ...changes,
});

const HEADER = "id,name,zip,email\n";
const write = async (files: Readonly<Record<string, string | Uint8Array>>) => {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, ".."), { recursive: true });
    await writeFile(join(folder, name), content);
  }
};

/** Rows of an input as COPY lines, in order. */
async function read(
  source: InputSource,
  {
    reading = {},
    connection = {},
  }: { reading?: Partial<InputQuery>; connection?: Partial<DuckDbConnection> } = {},
): Promise<readonly string[]> {
  const database = openInputDatabase(filesIn(folder, connection));
  try {
    expect(await database.checkInput(source)).toEqual([]);
    const query = { type: "enrich", ranked: false, ...reading } as const;
    const lines = await database.read(source, query, (rows) => text(rows.copyText()));
    return lines.split("\n").slice(0, -1).toSorted();
  } finally {
    await database.close();
    expect(await readdir(join(folder, "scratch")).catch(() => [])).toEqual([]);
  }
}

describe("files", () => {
  test("of CSV are read as text, whatever their delimiter, order of columns, quotes and line ends", async () => {
    await write({
      "leads/a.csv": `\uFEFFid,name,zip,email\r\n1,"Ann ""A""\nLee",01234,a@example.com\r\n2,Bo\\tab\t,,\r\n`,
      "leads/b.csv": `Email;ID;NAME;Extra;zip\nc@example.com;"3";"x;y";z;00501\n`,
      "leads/c.txt": "ignored",
    });
    // Columns are sent in the order of their fields.
    expect(await read(input("leads/*.csv"))).toEqual([
      `1\ta@example.com\tAnn "A"\\nLee\t01234`,
      "2\t\\N\tBo\\\\tab\\t\t\\N",
      "3\tc@example.com\tx;y\t00501",
    ]);
    expect(
      await read(input("leads/*.csv", { where: "zip > '01' AND name <> 'Bo'", orderBy: "zip" }), {
        reading: { ranked: true },
      }),
    ).toEqual([`1\ta@example.com\tAnn "A"\\nLee\t01234\t1`]);
  });

  test("of JSON are read as text and lists of texts", async () => {
    await write({
      "a.jsonl": `{"id":1,"name":"Ann","zip":"01234","email":["a@example.com",null,"b,\\"c\\\\@example.com"]}\n{"id":"x","zip":501}\n`,
      "b.jsonl": `{"id":1.5,"name":"2020-01-01T00:00:00Z","email":[],"other":{"a":1}}\n`,
    });
    expect(await read(input("*.jsonl"))).toEqual([
      '1\t{"a@example.com","b,\\\\"c\\\\\\\\@example.com"}\tAnn\t01234',
      "1.5\t{}\t2020-01-01T00:00:00Z\t\\N",
      "x\t\\N\t\\N\t501",
    ]);
    expect(
      (await read(input("*.jsonl", { orderBy: "id DESC" }), { reading: { ranked: true } })).map((line) =>
        line.replace(/\t.*\t/u, " "),
      ),
    ).toEqual(["1 3", "1.5 2", "x 1"]);
  });

  test("of JSON with wide rows are read in order, whatever the memory", async () => {
    const wide = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`other_${i}`, "x".repeat(60)]));
    for (const [rows, more] of [
      [30_000, wide],
      [2000, { other: "x".repeat(16_000) }],
    ] as const) {
      const lines = Array.from({ length: rows }, (_, i) =>
        JSON.stringify({ id: i, name: `Ann ${i}`, zip: null, email: null, ...more }),
      );
      await write({ "wide.jsonl": `${lines.join("\n")}\n` });
      const found = await read(input("wide.jsonl", { orderBy: "CAST(id AS bigint) DESC" }), {
        reading: { ranked: true },
      });
      expect(found.filter((line) => line.startsWith(`${rows - 1}\t`))).toEqual([
        `${rows - 1}\t\\N\tAnn ${rows - 1}\t\\N\t1`,
      ]);
      expect(found).toHaveLength(rows);
    }
  });

  test("of Parquet have Postgres's texts", async () => {
    const instance = await DuckDBInstance.create(":memory:");
    const duckdb = await instance.connect();
    await duckdb.run(`COPY (SELECT 7::DOUBLE AS id, 1.50::DECIMAL(9, 3) AS zip, TIMESTAMPTZ '2026-01-02 03:04:05.5+01' AS name,
      ['a@example.com', NULL] AS email, '\\xAB'::BLOB AS raw) TO '${join(folder, "a.parquet")}'`);
    instance.closeSync();
    const source = input("a.parquet");
    expect(await read(source)).toEqual(['7\t{"a@example.com"}\t2026-01-02 02:04:05.5+00\t1.5']);
    expect(
      await read({ ...source, key: ["id", "raw"], fields: {} }, { reading: { only: ["7", "\\xab"] } }),
    ).toEqual(['["7", "\\\\\\\\xab"]']);
    expect(await read({ ...source, fields: {} }, { reading: { only: ["008"], isCast: true } })).toEqual([
      "8",
    ]);
  });

  test("that haven't changed have the same fingerprints, and NULL and '' are equal", async () => {
    await write({
      "a.csv": `${HEADER}1,Ann,,a@example.com\n2,Ann,"",a@example.com\n3,Ann,x,a@example.com\n`,
    });
    const lines = await read(input("a.csv"), { reading: { hasFingerprint: true, isWithoutValues: true } });
    const hashes = lines.map((line) => line.split("\t")[1]);
    expect(hashes[0]).toBe("\\\\xa2e370a6d828ef18c606f4f2198c26de");
    expect(hashes[1]).toBe(hashes[0]);
    expect(hashes[2]).not.toBe(hashes[0]);
    const among = { keys: ["3", "4"] };
    expect(await read(input("a.csv"), { reading: { among } })).toEqual(["3\ta@example.com\tAnn\tx"]);
  });

  test("hold duplicate and missing keys, which the sample counts", async () => {
    await write({ "a.csv": `${HEADER}1,Ann,1,a@example.com\n1,Bo,2,\n,Cy,3,\n` });
    const database = openInputDatabase(filesIn(folder));
    const { keys, columns, engine } = await database.sampleInput(input("a.csv"));
    expect({ keys, engine }).toEqual({ keys: { rows: 3, withoutKey: 1, duplicates: 1 }, engine: "duckdb" });
    expect(
      columns
        .find(({ column }) => column === "zip")
        ?.values.flat()
        .toSorted(),
    ).toEqual(["1", "2", "3"]);
    const wanted = { pids: [], emails: ["a@example.com"], rows: [{ source: "leads", sourceKey: "1" }] };
    expect(await database.findRows(input("a.csv"), wanted)).toHaveLength(2);
    await database.close();
  });

  test.each<[string, Readonly<Record<string, string | Uint8Array>>, string]>([
    ["one is empty", { "a.csv": `${HEADER}1,a,b,c\n`, "b.csv": "" }, "leads/b.csv has 0 bytes"],
    [
      "one has no header",
      { "a.csv": HEADER, "b.csv": "7,Ann,01234,a@example.com\n" },
      "leads/b.csv, line 1, has no column id, name, zip, email",
    ],
    ["one is in UTF-16", { "a.csv": Buffer.from(`\uFEFF${HEADER}`, "utf16le") }, "leads/a.csv, line 1"],
    [
      "one is in Latin-1",
      { "a.csv": HEADER, "b.csv": Buffer.from(`${HEADER}1,Ann,,\n2,M\xFCller,,\n`, "latin1") },
      "leads/b.csv, line 3 (line breaks in quotes aren't counted), isn't UTF-8",
    ],
    [
      "a row is too long",
      { "a.csv": `${HEADER}1,Ann,,\n2,Ann,Lee,,x\n` },
      "leads/a.csv, line 3 (line breaks in quotes aren't counted), has 5 values for 4 columns",
    ],
    ["a quote doesn't end", { "a.csv": `${HEADER}1,Ann,,\n2,"Ann,,\n` }, "has a quote that doesn't end"],
    [
      "JSON is cut off",
      { "a.jsonl": '{"id":1,"name":"Ann","zip":"1","email":"a"}\n{"id":2,"name":"Ann' },
      "leads/a.jsonl, line 2, isn't JSON",
    ],
    [
      "a column changes its type",
      { "a.jsonl": '{"id":1,"name":"Ann","zip":"1","email":"a"}\n', "b.jsonl": '{"id":2,"email":["a"]}\n' },
      "leads/b.jsonl has email as VARCHAR[], leads/a.jsonl as VARCHAR",
    ],
    [
      "Parquet isn't any",
      { "a.parquet": "id,name,zip,email\n1,Ann,,\n" },
      "leads/a.parquet isn't a Parquet file",
    ],
    [
      "JSON ends early",
      { "a.json": '[{"id":1,"name":"Ann","zip":"1","email":' },
      "leads/a.json, byte 40, isn't JSON: unexpected end of data",
    ],
  ])("are refused by name and line if %s, without a value", async (_, files, message) => {
    await write(
      Object.fromEntries(Object.entries(files).map(([name, content]) => [`leads/${name}`, content])),
    );
    const database = openInputDatabase(filesIn(folder));
    const failure = await database
      .read(input("leads/*"), { type: "enrich", ranked: false }, (rows) => text(rows.copyText()))
      .catch((error: unknown) => error);
    await database.close();
    expect(failure).toMatchObject({ code: "bad_input", message: expect.stringContaining(message) });
    const { problems } = failure as { problems: readonly object[] };
    expect(problems[0]).toMatchObject({ path: "inputs.leads.table", hint: expect.any(String) });
    expect(JSON.stringify([failure, problems, String(failure)])).not.toMatch(/Ann|01234|example/u);
  });

  test("that change while they are read are not used", async () => {
    await write({ "a.csv": `${HEADER}1,Ann,,\n` });
    const database = openInputDatabase(filesIn(folder));
    const reading = database.read(input("a.csv"), { type: "enrich", ranked: false }, async (rows) => {
      await appendFile(join(folder, "a.csv"), "2,Bo,,\n");
      return text(rows.copyText());
    });
    await expect(reading).rejects.toMatchObject({ code: "input_changed" });
    await database.close();
  });

  test("are queried by `sql:`, which can only read", async () => {
    await write({ "a.csv": Buffer.from(`${HEADER}1,M\xFCller,,\n`, "latin1") });
    const sql = "SELECT id, name FROM read_csv('a.csv', encoding = 'latin-1', all_varchar = true)";
    const source = input("", { relation: { sql }, fields: { first_name: ["name"] } });
    expect(await read(source)).toEqual(["1\tMüller"]);
    const written = join(folder, "out.csv");
    const database = openInputDatabase(filesIn(folder));
    const attack = { ...source, where: `true) AS x; COPY (SELECT 1) TO '${written}'; SELECT (1` };
    expect(await database.checkInput(attack)).toHaveLength(1);
    expect(await readdir(folder)).not.toContain("out.csv");
    expect(await database.checkInput({ ...source, where: "nope = 1" })).toEqual([
      expect.objectContaining({ path: "inputs.leads.where", message: expect.stringMatching(/nope/u) }),
    ]);
    await database.close();
  });
});

test("files of a web server are copied once for all readings, with the token, which no message has", async () => {
  const seen: (string | undefined)[] = [];
  let isThere = true;
  const address = await serve((request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.writeHead(isThere ? 200 : 404, { etag: '"1"' });
    response.end(request.method === "HEAD" ? "" : `${HEADER}1,Ann,,\n`);
  });
  const connection = { webToken: { read: async () => "t0ken" } };
  const source = input(`${address}/a.csv?sig=s3cret`);
  expect(await read(source, { connection })).toEqual(["1\t\\N\tAnn\t\\N"]);
  expect(seen).toEqual(["HEAD /a.csv?sig=s3cret Bearer t0ken", "GET /a.csv?sig=s3cret Bearer t0ken"]);
  isThere = false;
  const failure = await read(source, { connection }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ message: expect.stringContaining(`no file matches ${address}/a.csv`) });
  expect(JSON.stringify(failure)).not.toMatch(/s3cret|t0ken/u);
});
