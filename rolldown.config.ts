import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "rolldown";
import manifest from "./package.json" with { type: "json" };

/** Packages that every command loads; their files take half of a command's start. They stay dependencies, for audits. */
const bundled = [
  "commander",
  "kysely",
  "node-cron",
  "p-queue",
  "pg",
  "pg-copy-streams",
  "pino",
  "undici",
  "yaml",
  "zod",
];

const others = Object.keys(manifest.dependencies).filter((name) => !bundled.includes(name));

/** Name of the package that a file is from; null for a file of ours. */
const packageOf = (file: string) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? null;

function licenseOf(name: string): string {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text =
    file === undefined
      ? `License: ${JSON.parse(readFileSync(new URL("package.json", folder), "utf8")).license}\n`
      : readFileSync(new URL(file, folder), "utf8");
  return `${name}\n\n${text}`;
}

export default defineConfig({
  input: { main: "src/main.ts", sandbox: "packages/sandbox/src/main.ts" },
  platform: "node",
  // The oldest Node.js that bin/person-etl starts.
  transform: { target: "node22.19" },
  external: (id) => others.some((name) => id === name || id.startsWith(`${name}/`)),
  plugins: [
    {
      name: "licenses",
      generateBundle(_, files) {
        const modules = Object.values(files).flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
        const names = new Set(modules.flatMap((file) => packageOf(file) ?? []));
        this.emitFile({
          type: "asset",
          fileName: "LICENSES",
          source: [...names].toSorted().map(licenseOf).join("\n"),
        });
      },
    },
  ],
  output: { dir: "dist", cleanDir: true, sourcemap: true },
});
