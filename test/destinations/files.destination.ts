import { mkdir, mkdtemp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeAll, expect, inject, test } from "vitest";
import type { DuckDbConnection, InputSource } from "../../src/load/inputs/input.ts";
import { openInputDatabase } from "../../src/load/open.ts";
import { openStorage, openStorageAgent } from "../../src/object-store.ts";
import { filesIn } from "../support/files-in.ts";
import { people } from "../load/suite/people.ts";
import { BUCKET, S3_KEYS, S3_REGION, startJudges } from "../support/iceberg/start-judges.ts";

const secret = (value: string) => ({ read: async () => value });

let s3: string;
let folder: string;
let connection: DuckDbConnection;

beforeAll(async () => {
  ({ s3 } = await startJudges(inject("runFolder")));
  folder = await mkdtemp(join(inject("runFolder"), "s3-"));
  await mkdir(join(folder, "scratch"));
  connection = filesIn(folder, {
    s3Endpoint: s3,
    s3Region: S3_REGION,
    accessKeyId: secret(S3_KEYS.accessKeyId),
    secretAccessKey: secret(S3_KEYS.secretAccessKey),
  });
});

const input = (table: string): InputSource => ({
  ...people,
  name: "leads",
  relation: { table: [table] },
  fields: { emails: ["email"] },
});

async function put(key: string, content: string): Promise<void> {
  const agent = openStorageAgent();
  const options = { ...connection, localFolder: null };
  await openStorage(options, {}, agent).write(`s3://${BUCKET}/${key}`, Buffer.from(content));
  await agent.close();
}

async function read(table: string): Promise<readonly string[]> {
  const database = openInputDatabase(connection);
  try {
    const lines = await database.read(input(table), { type: "enrich", ranked: false }, (rows) =>
      text(rows.copyText()),
    );
    return lines.split("\n").slice(0, -1).toSorted();
  } finally {
    await database.close();
  }
}

test("objects of a pattern are copied, read and removed", async () => {
  await put("leads/a b+ü.csv", "id,email\n1,a@example.com\n");
  await put("leads/2026/b.csv", "email,id\nb@example.com,2\n");
  await put("leads/c.jsonl", "{}\n");
  expect(await read(`s3://${BUCKET}/leads/*.csv`)).toEqual(["1\ta@example.com"]);
  expect(await read(`s3://${BUCKET}/leads/**/*.csv`)).toEqual(["1\ta@example.com", "2\tb@example.com"]);
  expect(await read(`s3://${BUCKET}/leads/2026/b.csv`)).toEqual(["2\tb@example.com"]);
  expect(await readdir(join(folder, "scratch"))).toEqual([]);
});

test("a version that was copied is copied again only if it changed", async () => {
  await put("one.csv", "id,email\n1,a@example.com\n");
  const database = openInputDatabase(connection);
  const place = input(`s3://${BUCKET}/one.csv`);
  expect(await database.describe(place)).toMatchObject([{ name: "id" }, { name: "email" }]);
  await put("one.csv", "id,other\n1,a@example.com\n");
  // For a minute, all readings see one version.
  expect(await database.checkInput(place)).toEqual([]);
  await database.close();
  await expect(read(`s3://${BUCKET}/one.csv`)).rejects.toMatchObject({
    message: expect.stringContaining(`s3://${BUCKET}/one.csv, line 1, has no column email`),
  });
});

test("objects and buckets that aren't there are named, and no key is", async () => {
  for (const place of [
    `s3://${BUCKET}/nothing/*.csv`,
    `s3://${BUCKET}/nothing.csv`,
    "s3://no-such-bucket/*.csv",
  ]) {
    const failure = await read(place).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "bad_input",
      message: expect.stringMatching(/no file matches s3:|404/u),
    });
    expect(JSON.stringify(failure)).not.toContain(S3_KEYS.secretAccessKey);
  }
});
