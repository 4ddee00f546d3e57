import { jobTypes } from "../../src/jobs/registry.ts";
import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { nameInPage } from "../../scripts/config-schema.ts";
import { documentSchemaOf, endpointPaths } from "../../src/config/schema/document.ts";
import { keyPaths } from "../../src/config/schema/settings.ts";

/** Value of TYPE, TABLE or FIELD in a setting that the page describes together with others. */
const valueOf = (path: string): readonly string[] =>
  nameInPage(path) === path
    ? []
    : [path.replace(/^(?:budgets|prices|inputs\.NAME\.fields)\./u, "").replace(/\..*/u, "")];

const documentSchema = documentSchemaOf(jobTypes);

it("docs/configuration.md names every setting of the schema, and no other", async () => {
  const text = await readFile("docs/configuration.md", "utf8");
  const known = new Set(keyPaths(documentSchema).map(({ path }) => path.join(".")));
  // Names of endpoints are documented, but not each of their settings.
  const endpoints = endpointPaths.map((path) => `service.limits.${path}`);
  const settings = [...known].filter((path) => !endpoints.some((endpoint) => path.startsWith(endpoint)));
  const names = [...settings.map(nameInPage), ...endpointPaths, ...settings.flatMap(valueOf)];
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  const rows = [...text.matchAll(/^\| `([a-z_]+(?:\.[A-Za-z_]+)*)`/gm)].map(([, path]) => path ?? "");
  expect(rows.length).toBeGreaterThan(50);
  const knownInPage = new Set([...known].map(nameInPage));
  expect(rows.filter((path) => !knownInPage.has(path))).toEqual([]);
});
