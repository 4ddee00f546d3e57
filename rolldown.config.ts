import { readFileSync } from "node:fs";
import { defineConfig } from "rolldown";
import manifest from "./package.json" with { type: "json" };

/** Packages of hundreds of files, which take half of a command's start to load. They stay dependencies, for audits. */
const bundled = ["kysely", "undici", "yaml", "zod"];

const others = Object.keys(manifest.dependencies).filter((name) => !bundled.includes(name));

const licenseOf = (name: string) =>
  `${name}\n\n${readFileSync(new URL(`node_modules/${name}/LICENSE`, import.meta.url), "utf8")}`;

export default defineConfig({
  input: { main: "src/main.ts", sandbox: "packages/sandbox/src/main.ts" },
  platform: "node",
  // The oldest Node.js that bin/person-etl starts.
  transform: { target: "node22.19" },
  external: (id) => others.some((name) => id === name || id.startsWith(`${name}/`)),
  plugins: [
    {
      name: "licenses",
      generateBundle() {
        this.emitFile({
          type: "asset",
          fileName: "LICENSES",
          source: bundled.map(licenseOf).join("\n"),
        });
      },
    },
  ],
  output: { dir: "dist", cleanDir: true, sourcemap: true },
});
