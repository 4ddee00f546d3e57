import { describe, expect, onTestFinished, test } from "vitest";
import { enrichSpec } from "./suite/people.ts";
import type { TextRow } from "./suite/context.ts";
import { connect, freshDatabase, open } from "./bare-database.ts";

describe("check", () => {
  test("reports the server and that all is well", async () => {
    const { url } = await freshDatabase();
    const lines = await open(url).checkDatabase();
    expect(lines.map((line) => [line.subject, line.ok])).toEqual([
      ["warehouse", true],
      ["schema person_data", true],
      ["schema person_data_ops", true],
      ["schema person_data_state", true],
    ]);
    expect(lines[0]?.message).toMatch(
      /^Connected to .*schemas person_data and person_data_ops \(version \d+\.\d+\)\.$/,
    );
    expect(lines[1]?.message).toBe("does not exist yet; it can be created.");
    await open(url).migrate();
    expect((await open(url).checkDatabase())[1]?.message).toMatch(
      /^exists, and .* may create tables in it\.$/,
    );
  });

  test("reports that no such database exists and what to do, without a secret", async () => {
    const url = new URL((await freshDatabase()).url);
    [url.pathname, url.password] = ["/nothing_here", url.password || "a-password"];
    const lines = await open(url.href).checkDatabase();
    const [message, hint] = [
      expect.stringContaining("that database does not exist"),
      "create it, or correct its name in the address",
    ];
    expect(lines).toEqual([{ subject: "warehouse", ok: false, message, hint }]);
    expect(JSON.stringify(lines)).not.toContain(url.password);
  });

  test("as every command refuses a database in SQL_ASCII, which can't hold every name", async () => {
    const { url } = await freshDatabase();
    const admin = await connect(url);
    const [version] = (await admin.query<TextRow>("SHOW server_version_num")).rows;
    const provider = Number(version?.["server_version_num"]) >= 150_000 ? "LOCALE_PROVIDER libc" : "";
    const latin = new URL(url);
    latin.pathname = `/latin_${new URL(url).pathname.slice(1)}`;
    const name = latin.pathname.slice(1);
    await admin.query(
      `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'SQL_ASCII' ${provider} LC_COLLATE 'C' LC_CTYPE 'C'`,
    );
    onTestFinished(async () => {
      await admin.query(`DROP DATABASE ${name}`);
    });
    const message = expect.stringContaining("the encoding SQL_ASCII");
    const refusal = { code: "warehouse_unsupported", message };
    await expect(open(latin.href).isMigrated()).rejects.toMatchObject(refusal);
    await expect(open(latin.href).migrate()).rejects.toMatchObject(refusal);
  });
});

function* sampleRows(): Generator<(string | null)[]> {
  for (let i = 0; i < 12_000; i++)
    yield [String(i), i === 7 ? null : `tab\t${i}\n\\`, "2026-01-01T00:00:00Z"];
}

test("a sample table is created once, with its rows, by processes that start at the same time", async () => {
  const { url } = await freshDatabase();
  const columns = [
    { name: "id", type: "bigint" },
    { name: "first_name", type: "text" },
    { name: "updated_at", type: "timestamptz" },
  ] as const;
  const made = await Promise.all(
    Array.from({ length: 4 }, () => open(url).createSampleTable(enrichSpec().input, columns, sampleRows())),
  );
  expect(made.filter(Boolean)).toHaveLength(1);
  const client = await connect(url);
  expect((await client.query("SELECT count(*), count(first_name) AS named FROM crm.people")).rows).toEqual([
    { count: "12000", named: "11999" },
  ]);
  expect((await client.query("SELECT * FROM crm.people WHERE id = 42")).rows).toEqual([
    { id: "42", first_name: "tab\t42\n\\", updated_at: "2026-01-01 00:00:00+00" },
  ]);
});
