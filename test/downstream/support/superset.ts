import { execFile, spawn } from "node:child_process";
import { copyFile, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { atEnd } from "../../cli/support/at-end.ts";
import { installPython, type PythonEnvironment } from "../../support/python-environment.ts";
import { unusedPort } from "../../support/unused-port.ts";

const run = promisify(execFile);
const START_MS = 180_000;

/** User who may do everything in the Superset of the tests. */
export const ADMIN = { name: "admin", password: "admin" } as const;

/** A running Superset. */
export interface TestSuperset {
  readonly url: string;
  /** Runs Superset's command on the server's machine. */
  command(args: readonly string[]): Promise<unknown>;
  /** Reduces a PNG file to 256 colors, which makes it three times smaller. */
  reduceColors(file: string): Promise<unknown>;
}

/** Starts a Superset without dashboards, with its files in `folder`, until the test file ends. */
export async function startSuperset(folder: string): Promise<TestSuperset> {
  const environment = await installSuperset();
  const metadata = join(folder, "superset.db");
  await copyFile(join(environment.home, "superset.db"), metadata);
  const env = envOf(environment, metadata);
  const superset = join(dirname(environment.python), "superset");
  const port = await unusedPort();
  const log = await open(join(folder, "superset.log"), "a");
  const server = spawn(superset, ["run", "--host", "127.0.0.1", "--port", `${port}`, "--with-threads"], {
    env,
    stdio: ["ignore", log.fd, log.fd],
  });
  await log.close();
  atEnd(() => void server.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  await untilHealthy(url, () => server.exitCode === null, join(folder, "superset.log"));
  return {
    url,
    command: (args) => run(superset, args, { env, maxBuffer: 2 ** 26 }),
    reduceColors: (file) => run(environment.python, ["-c", REDUCE_COLORS, file]),
  };
}

const REDUCE_COLORS = [
  "import sys; from PIL import Image",
  "image = Image.open(sys.argv[1]).convert('RGB').quantize(256, dither=Image.Dither.NONE)",
  "image.save(sys.argv[1], optimize=True)",
].join("\n");

/** Installs Superset, and makes a metadata database with one user; about 900 MB. */
function installSuperset(): Promise<PythonEnvironment> {
  return installPython({
    name: "superset",
    minors: [11, 12],
    before: "2026-11-20",
    installs: [
      [
        "apache-superset==6.1.0",
        "psycopg2-binary==2.9.13",
        "pillow==12.3.0",
        // Superset's requirements leave out some versions that it needs.
        "rich==15.0.0",
        "cachetools==8.0.1",
        "flask-caching==2.3.1",
        "cachelib==0.13.0",
      ],
    ],
    async finish(environment) {
      const env = envOf(environment, join(environment.home, "superset.db"));
      const superset = join(dirname(environment.python), "superset");
      await run(superset, ["db", "upgrade"], { env, maxBuffer: 2 ** 26 });
      await run(superset, ["init"], { env, maxBuffer: 2 ** 26 });
      const name = ["--firstname", "Ada", "--lastname", "Admin", "--email", "admin@example.com"];
      const login = ["--username", ADMIN.name, "--password", ADMIN.password];
      await run(superset, ["fab", "create-admin", ...login, ...name], { env });
    },
  });
}

function envOf(environment: PythonEnvironment, metadata: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    HOME: environment.home,
    FLASK_APP: "superset.app:create_app()",
    SUPERSET_CONFIG_PATH: fileURLToPath(new URL("superset_config.py", import.meta.url)),
    PERSON_ETL_TEST_SUPERSET: metadata,
    // "Today" of the dashboards is that of the figures.
    TZ: "UTC",
    // Superset's pages would count their visitors elsewhere.
    SCARF_ANALYTICS: "false",
  };
}

async function untilHealthy(url: string, isAlive: () => boolean, log: string): Promise<void> {
  for (const end = Date.now() + START_MS; Date.now() < end && isAlive(); await delay(200)) {
    const reply = await fetch(`${url}/health`).catch(() => null);
    if (reply?.ok) return;
  }
  throw new Error(`Superset does not answer: see ${log}`);
}
