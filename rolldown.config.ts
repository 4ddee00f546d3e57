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

/** Text of a package's license, which some have only at the end of their README. */
function licenseOf(name: string): string {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const names = readdirSync(folder);
  const file =
    names.find((entry) => /^licen[cs]e/i.test(entry)) ?? names.find((entry) => /^readme/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no license.`);
  const text = readFileSync(new URL(file, folder), "utf8");
  return `${name}\n\n${/^readme/i.test(file) ? text.slice(Math.max(0, text.search(/^#+ *licen[cs]e/im))) : text}`;
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
