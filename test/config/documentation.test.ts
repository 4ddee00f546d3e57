import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { availableJobTypes } from "../../src/config/rules/availability.ts";
import { documentSchema } from "../../src/config/schema/document.ts";
import { endpointPaths } from "../../src/config/schema/service.ts";
import { discriminatorOf, keyPaths, optionsOf, schemaAt } from "../../src/config/schema/walk.ts";

it("docs/configuration.md names every setting of the schema, and no other", async () => {
  const text = await readFile("docs/configuration.md", "utf8");
  const known = new Set(keyPaths(documentSchema).map(({ path }) => path.join(".")));
  // Each endpoint is named, but not each of its settings.
  const endpoints = endpointPaths.map((path) => `service.limits.${path}`);
  const settings = [...known].filter((path) => !endpoints.some((endpoint) => path.startsWith(endpoint)));
  expect([...settings, ...endpointPaths].filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
  const rows = [...text.matchAll(/^\| `([a-z_]+(?:\.[A-Za-z_]+)*)`/gm)].map(([, path]) => path ?? "");
  expect(rows.length).toBeGreaterThan(50);
  expect(rows.filter((path) => !known.has(path))).toEqual([]);
});

/** The settings of jobs by their paths, of the types that are available or of the others. */
function settingsOfJobs(isAvailable: boolean): ReadonlySet<string> {
  const jobs = schemaAt(documentSchema, ["jobs", "NAME"], {});
  const options = (jobs ? optionsOf(jobs) : []).filter(
    (option) => availableJobTypes.includes(String(discriminatorOf(option, "type"))) === isAvailable,
  );
  return new Set(
    options.flatMap((option) => keyPaths(option, ["jobs", "NAME"]).map(({ path }) => path.join("."))),
  );
}

it("docs/configuration.md tells no setting of an available job type as refused, and all others", async () => {
  const text = await readFile("docs/configuration.md", "utf8");
  const [, section = ""] = text.split("## Not available in this version");
  const told = [...section.matchAll(/^\| `(jobs\.[A-Za-z_.]+)`/gm)].map(([, path = ""]) => path);
  const available = settingsOfJobs(true);
  expect(available).toContain("jobs.NAME.segments.id");
  expect(told.toSorted()).toEqual(
    [...settingsOfJobs(false)].filter((path) => !available.has(path)).toSorted(),
  );
});
