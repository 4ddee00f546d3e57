import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { schemaFor } from "../../src/cli/package.ts";

test("the schema of a configuration in the checkout is a relative path to an existing file", async () => {
  expect(schemaFor(resolve("config.yaml"))).toBe("docs/reference/config.schema.json");
  expect(schemaFor(resolve("deploy/a/config.yaml"))).toBe("../../docs/reference/config.schema.json");
  expect(JSON.parse(await readFile(schemaFor(resolve("config.yaml")), "utf8"))).toMatchObject({
    title: "Configuration of person-etl",
  });
});

test("a configuration elsewhere refers to the installed file by URL", () => {
  const url = pathToFileURL(resolve("docs/reference/config.schema.json")).href;
  expect(schemaFor(join(tmpdir(), "config.yaml"))).toBe(url);
});

test("a project that installed the package refers to it relatively, unless its path has a blank", async () => {
  const project = await mkdtemp(join(tmpdir(), "person-etl-project-"));
  const root = join(project, "node_modules/person-etl/");
  await mkdir(join(project, "etl"), { recursive: true });
  await mkdir(root, { recursive: true });
  await writeFile(join(project, "etl/config.yaml"), "");
  expect(schemaFor(join(project, "etl/config.yaml"), pathToFileURL(root))).toBe(
    "../node_modules/person-etl/docs/reference/config.schema.json",
  );
  const spaced = pathToFileURL("/srv/my package/");
  expect(schemaFor("/srv/config.yaml", spaced)).toBe(
    "file:///srv/my%20package/docs/reference/config.schema.json",
  );
});
