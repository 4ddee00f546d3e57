import { expect, test } from "vitest";
import { declaredCatalog } from "../../src/publish/destination.ts";
import { fine, load, problemsOf } from "./support.ts";

test("extra_columns and service.endpoints name what the interface doesn't", async () => {
  const text = `${fine}extra_columns: { person: { premium_vehicle_count: integer } }\n`.replace(
    "base_url: sandbox",
    "base_url: sandbox\n  endpoints: { resolve: /v2/resolve }",
  );
  const config = await load(text);
  expect(config.service.endpoints).toEqual({ "/v1/resolve": "/v2/resolve" });
  const { person } = config.extraColumns;
  const published = declaredCatalog(null, person).tables.find(({ name }) => name === "person");
  expect(published?.columns.at(-1)).toMatchObject({
    name: "premium_vehicle_count",
    type: "integer",
    pii: "sensitive",
  });
});

test("wrong ones are refused", async () => {
  const text = `${fine}extra_columns: { person: { full_name: text, Odd: text, n: float } }\n`.replace(
    "base_url: sandbox",
    "base_url: sandbox\n  endpoints: { resolve: https://example.com/, usage: /x }",
  );
  expect(await problemsOf(text)).toEqual([
    expect.stringMatching(/^3 service\.endpoints\.resolve: must be a path such as \/v2\/resolve/u),
    expect.stringMatching(/^3 service\.endpoints\.usage: is not a setting/u),
    expect.stringMatching(/extra_columns\.person\.Odd: is not a valid name/u),
    expect.stringMatching(/extra_columns\.person\.n: must be one of text, integer, numeric, boolean, date/u),
    expect.stringMatching(/extra_columns\.person\.full_name: is a column of person already/u),
  ]);
});

const alerts = (on: string) =>
  `${fine}history: { people: false }\nalerts: { webhook: "\${HOOK}", on: [${on}] }\n`;

test("an alert on job changes needs the history of people", async () => {
  const env = { HOOK: "https://hooks.example.com/1" };
  expect(await problemsOf(alerts("failed, job_changes"), { env })).toEqual([
    expect.stringMatching(/alerts\.on: has job_changes, which needs history\.people/u),
  ]);
  expect((await load(alerts("failed, deaths"), { env })).alerts).toMatchObject({
    on: ["failed", "deaths"],
    jobChangesAbove: 100,
  });
});
