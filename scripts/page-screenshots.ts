import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openEmbedded } from "../src/load/embedded/open.ts";
import { launchChromium } from "../test/support/launch-chromium.ts";
import { ninetyDays } from "../test/support/ninety-days.ts";
import { runSql } from "../test/support/run-sql.ts";

const root = new URL("..", import.meta.url).pathname;

/** Pictures of the page, each with the part that it shows. */
const pictures = [
  { file: "page-light.png", width: 1120, height: 1690, colorScheme: "light", from: "" },
  { file: "page-dark.png", width: 1120, height: 1300, colorScheme: "dark", from: "#usage" },
  { file: "page-phone.png", width: 360, height: 1640, colorScheme: "light", from: "" },
] as const;

/** Settings that the example only mentions, and fewer people. */
const changes: readonly (readonly [RegExp, string])[] = [
  [/^#sandbox:.*$/m, "sandbox: { people: 100000 }"],
  [/^#publish:.*$/m, "publish: { local: { type: duckdb, path: people.duckdb } }"],
  [/^#prices:/m, "prices:"],
  [
    /^#budgets:.*$/m,
    "budgets: { resolve: { per_day: 50000 }, enrich: { per_day: 20000, per_month: { amount: 2500 } }, unlock: { per_month: 10000 } }",
  ],
];

/** Takes pictures of the page after a sandbox run with ninety days of history. */
export async function pageScreenshots(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "person-etl-page-"));
  const example = await readFile(join(root, "config.example.yaml"), "utf8");
  const config = changes.reduce((text, [line, setting]) => text.replace(line, setting), example);
  await writeFile(join(folder, "config.yaml"), config);
  const run = startCli(folder, ["run"]);
  const [code] = await once(run, "exit");
  if (code !== 0) throw new Error(`The run ended with exit code ${String(code)}.`);
  const server = await openEmbedded({
    dataDir: join(folder, ".person-etl"),
    log: { debug() {}, info() {}, warn() {}, error() {} },
    readableSchemas: [],
    signal: new AbortController().signal,
  });
  const ui = startCli(folder, ["--json", "ui", "--port", "0"]);
  const browser = await launchChromium();
  try {
    await runSql(server.connectionString, ninetyDays);
    const [line] = await once(createInterface({ input: ui.stdout }), "line");
    const { url } = JSON.parse(String(line)) as { readonly url: string };
    for (const { file, width, height, colorScheme, from } of pictures) {
      const page = await browser.newPage({ viewport: { width, height }, colorScheme });
      await page.goto(`${url}/${from}`);
      await page.screenshot({ path: join(root, "docs/images", file) });
      await page.close();
    }
  } finally {
    await browser.close();
    ui.kill("SIGTERM");
    await once(ui, "exit");
    await server.close();
    await rm(folder, { recursive: true });
  }
}

function startCli(cwd: string, args: readonly string[]) {
  const env = { ...process.env, PERSON_SERVICE_API_KEY: "sandbox" };
  return spawn("sh", [join(root, "bin/person-etl"), ...args], {
    cwd,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
}
