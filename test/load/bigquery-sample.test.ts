import { expect, test } from "vitest";
import { openInputDatabase } from "../../src/load/open.ts";
import { serve } from "../support/serve.ts";
import { people } from "./suite/people.ts";

const FIELDS = ["id", "name", "updated_at"].map((name) => ({ name, type: "TIMESTAMP" }));
const STOPPED = { reason: "stopped", message: "Job execution was cancelled: Job timed out" };

/** Answers by path: a description of the input, and queries that run until they are stopped. */
const ANSWERS: readonly (readonly [path: RegExp, answer: unknown])[] = [
  [/\/jobs$/u, { statistics: { query: { statementType: "SELECT", schema: { fields: FIELDS } } } }],
  [/\/queries$/u, { jobComplete: false, jobReference: { jobId: "j1" } }],
  [/\/jobs\/j1/u, { status: { state: "DONE", errorResult: STOPPED } }],
];

test("BigQuery stops a statement of a profile when its time is over, and check goes on", async () => {
  const queries: unknown[] = [];
  const url = await serve((request, response, body) => {
    const path = request.url?.replace(/\?.*/u, "") ?? "";
    if (path.endsWith("/queries")) queries.push(JSON.parse(body));
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(ANSWERS.find(([pattern]) => pattern.test(path))?.[1] ?? {}));
  });
  const connection = {
    type: "bigquery",
    name: "lake",
    project: "p",
    dataset: "crm",
    location: null,
    credentialsFile: null,
    impersonate: null,
    apiEndpoint: url,
    maximumBytesBilled: null,
  } as const;
  const database = openInputDatabase(connection);
  const sample = await database.sampleInput({
    ...people,
    connection,
    relation: { table: ["customers"] },
    key: ["id"],
    fields: { full_name: ["name"] },
  });
  expect(sample).toMatchObject({ keys: null, sampledRows: 0 });
  expect(queries).toMatchObject([{ jobTimeoutMs: "10000" }, { jobTimeoutMs: "10000" }]);
  await database.close();
});
