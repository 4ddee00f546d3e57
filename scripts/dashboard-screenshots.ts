import { spawn } from "node:child_process";
import { once } from "node:events";

const root = new URL("..", import.meta.url).pathname;

/** Takes pictures of the Superset dashboards by their test, which draws ninety days of synthetic figures. */
export async function dashboardScreenshots(): Promise<void> {
  const config = ["--config", "vitest.downstream.config.ts", "test/downstream/superset.downstream.ts"];
  const test = spawn("npx", ["vitest", "run", ...config], {
    cwd: root,
    env: { ...process.env, PERSON_ETL_SCREENSHOTS: `${root}docs/images` },
    stdio: "inherit",
  });
  const [code] = await once(test, "exit");
  if (code !== 0) throw new Error(`The test ended with exit code ${String(code)}.`);
}
