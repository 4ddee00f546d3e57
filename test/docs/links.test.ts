import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url);

async function inFolder(folder: string): Promise<readonly string[]> {
  const names = await readdir(new URL(folder, root), { recursive: folder !== "" });
  return names.map((name) => folder + name);
}

/** Pages for users. */
async function pages(): Promise<readonly string[]> {
  const names = (await Promise.all(["", "docs/", "deploy/", "dashboards/"].map(inFolder))).flat();
  return names.filter((name) => name.endsWith(".md"));
}

/** Anchors of a page, derived from its headings. */
function anchorsOf(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.+)$/gmu)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-"),
  );
}

test("every link between the project's pages has a target", async () => {
  const broken: string[] = [];
  let links = 0;
  for (const page of await pages()) {
    const text = await readFile(new URL(page, root), "utf8");
    for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/gu)) {
      if (/^[a-z]+:/u.test(target)) continue;
      links += 1;
      const address = new URL(target, new URL(page, root));
      const anchor = address.hash.slice(1);
      address.hash = "";
      const found = await readFile(address, "utf8").catch(() => null);
      if (found === null || (anchor !== "" && !anchorsOf(found).includes(anchor)))
        broken.push(`${page}: ${target}`);
    }
  }
  expect(broken).toEqual([]);
  expect(links).toBeGreaterThan(20);
});

test("every page of docs is linked from the README", async () => {
  const readme = await readFile(new URL("README.md", root), "utf8");
  const unknown = (await pages()).filter((page) => page.startsWith("docs/") && !readme.includes(`](${page}`));
  expect(unknown).toEqual([]);
});

test("files that pages name exist", async () => {
  const missing: string[] = [];
  for (const page of await pages()) {
    const text = await readFile(new URL(page, root), "utf8");
    for (const [, name = ""] of text.matchAll(
      /`((?:src|test|migrations|bench|deploy|dashboards)\/[\w./-]+\.\w+)`/gu,
    )) {
      await readFile(new URL(name, root)).catch(() => missing.push(`${page}: ${name}`));
    }
  }
  expect(missing).toEqual([]);
});
