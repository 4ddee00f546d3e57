import { defineConfig } from "rolldown";
import manifest from "./package.json" with { type: "json" };

/** Packages of hundreds of files, which take half of a command's start to load. They stay dependencies, for audits and licenses. */
const bundled = ["kysely", "undici", "yaml", "zod"];

const others = Object.keys(manifest.dependencies).filter((name) => !bundled.includes(name));

export default defineConfig({
  input: { main: "src/main.ts", sandbox: "packages/sandbox/src/main.ts" },
  platform: "node",
  // The oldest Node.js that bin/person-etl starts.
  transform: { target: "node22.19" },
  external: (id) => others.some((name) => id === name || id.startsWith(`${name}/`)),
  output: { dir: "dist", cleanDir: true },
});
