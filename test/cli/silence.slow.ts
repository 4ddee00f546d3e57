import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { unusedPort } from "../support/unused-port.ts";
import { atEnd } from "./support/at-end.ts";
import { makeFolder, startCli } from "./support/cli.ts";
import { startService } from "./support/answering-service.ts";
import { startOnTerminal } from "./support/on-terminal.ts";
import { API_KEY, makeSetting, PEOPLE } from "./support/setting.ts";

const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";

/** Time for runs that wait for a service. */
const TIME_LIMIT_MS = 120_000;

async function startSandboxOn(port: number) {
  const args = ["--json", "--port", String(port), "--people", String(PEOPLE), "--latency", "300"];
  const running = startCli(["sandbox", ...args], { cwd: await makeFolder() });
  await running.firstLine();
  return running.child;
}

async function killedDuringRun() {
  const port = await unusedPort();
  const sandbox = await startSandboxOn(port);
  const address = `http://127.0.0.1:${port}`;
  const service = "  concurrency: 1\n  requests_per_second: 2\n";
  const setting = await makeSetting({ rows: 5000, baseUrl: address, service, jobs: RESOLVE });
  const isSent = async () => {
    const calls = await setting
      .query("SELECT FROM person_data_ops.api_call WHERE http_status = 200")
      .catch(() => []);
    return calls.length > 0;
  };
  return {
    setting,
    kill: async () => {
      while (!(await isSent())) await new Promise((resolve) => setTimeout(resolve, 50));
      sandbox.kill("SIGKILL");
      await once(sandbox, "exit");
    },
    restart: () => startSandboxOn(port),
    address,
  };
}

/** Lines of a log with these events. */
function linesOf(stderr: string, events: readonly string[]) {
  const lines = stderr.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line)).filter(({ event }) => events.includes(event));
}

/** Sentence of a line, without its times. */
const textOf = ({ text }: { readonly text: string }) => text.replaceAll(/[\d:]+ UTC/gu, "TIME");

test.concurrent("a service that is gone is reported in the log with its times, and once when it is back", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { setting, kill, restart, address } = await killedDuringRun();
  const run = startCli(["run"], setting);
  await kill();
  await run.logged("service_unreachable");
  await restart();
  const { code, stderr } = await run.result;
  expect(code).toBe(0);
  const [gone, back, ...others] = linesOf(stderr, ["service_unreachable", "service_back"]);
  expect(gone).toMatchObject({ level: "warn", cause: "ECONNREFUSED" });
  expect(textOf(gone)).toBe(
    `The service at ${address} has not responded since TIME (ECONNREFUSED). Trying until TIME.`,
  );
  // Five minutes from the first failed connection.
  const seconds = (Date.parse(gone.until) - Date.parse(gone.since)) / 1000;
  expect(seconds).toBeGreaterThan(295);
  expect(seconds).toBeLessThan(310);
  expect(back.text).toMatch(new RegExp(`^The service at ${address} responds again after \\d+ s\\.$`));
  expect(others).toEqual([]);
});

test.concurrent("on a terminal, the report stands above a whole progress bar", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { setting, kill, restart } = await killedDuringRun();
  const run = startOnTerminal(["run"], { ...setting, columns: 120 });
  await kill();
  await run.shows("has not responded since");
  await restart();
  const { code, screen } = await run.ended;
  expect(code).toBe(0);
  const lines = screen.split(/\r?\n|\r/);
  const at = lines.findIndex((line) => line.includes("has not responded since"));
  expect(lines[at]).toMatch(/\d\d:\d\d:\d\d.* .*warning.* The service at http:\/\/127/);
  expect(screen).toMatch(/responds again after \d+ s\./);
  expect(screen).toMatch(/resolve_customers {2}█{24} 100%/);
  expect(screen).not.toContain('{"');
});

test.concurrent("a service that accepts calls and never responds is reported", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { url } = await startService(() => {});
  const setting = await makeSetting({ rows: 50, baseUrl: url, jobs: RESOLVE });
  const run = startCli(["run"], setting);
  await run.logged("service_unreachable");
  run.child.kill("SIGTERM");
  const { code, stderr, stdout } = await run.result;
  expect(code).toBe(143);
  const [line] = linesOf(stderr, ["service_unreachable"]);
  expect(textOf(line)).toBe(`The service at ${url} has not responded since TIME. Waiting until TIME.`);
  expect(Date.parse(line.until) - Date.parse(line.since)).toBe(120_000);
  expect(stdout).toContain("Up to 48 records may have been billed without a response.");
});

/** Port of a server that accepts connections and never responds. */
async function silentPort(): Promise<number> {
  const server = createServer((socket) => socket.on("error", () => {}));
  await once(server.listen(0, "127.0.0.1"), "listening");
  atEnd(() => void server.close());
  return (server.address() as AddressInfo).port; // of a server on a port
}

interface Silent {
  readonly args: readonly string[];
  readonly event: string;
  /** Text of the report; `HOST` is what doesn't respond. */
  readonly text: string;
  /** Length of the reported wait; absent if it has no end. */
  readonly waitMs?: number;
  /** Exit code; absent if the command isn't waited for. */
  readonly code?: number;
}

const SILENT: Readonly<Record<string, Silent>> = {
  "a service, before the first billed call, for 25 s": {
    args: ["run"],
    event: "service_unreachable",
    text: "The service at http://HOST has not responded since TIME. Waiting until TIME.",
    waitMs: 25_000,
    code: 1,
  },
  "a warehouse": {
    args: ["run"],
    event: "warehouse_unreachable",
    text: "The warehouse (Postgres at HOST/crm) has not responded since TIME.",
  },
  "a catalog of Iceberg tables": {
    args: ["publish", "lake"],
    event: "destination_unreachable",
    text: "Destination lake (iceberg) has not responded since TIME. Waiting until TIME.",
  },
  BigQuery: {
    args: ["publish", "analytics"],
    event: "destination_unreachable",
    text: "Destination analytics (bigquery) has not responded since TIME. Waiting until TIME.",
  },
};

test.concurrent.for(Object.entries(SILENT))(
  "what accepts connections and never responds is reported: %s",
  {
    timeout: TIME_LIMIT_MS,
  },
  async ([, { args, event, text, waitMs, code }]) => {
    const host = `127.0.0.1:${await silentPort()}`;
    const jobs = `${RESOLVE}publish:
  lake: { type: iceberg, catalog: "http://${host}", warehouse: people }
  analytics: { type: bigquery, project: crm-people, location: EU, dataset: people, ops_dataset: people_ops, api_endpoint: "http://${host}" }
`;
    const setting = await makeSetting({ rows: 50, baseUrl: `http://${host}`, jobs });
    const silent = event.startsWith("warehouse")
      ? `postgresql://loader:secret-4711@${host}/crm`
      : setting.url;
    const run = startCli(args, { ...setting, env: { ...setting.env, WAREHOUSE_URL: silent } });
    await run.logged(event);
    if (code === undefined) run.child.kill("SIGKILL");
    const ended = await run.result;
    expect(ended.code).toBe(code ?? null);
    const [line, ...others] = linesOf(ended.stderr, [event, event.replace("unreachable", "back")]);
    expect([textOf(line), others]).toEqual([text.replace("HOST", host), []]);
    const reportedMs = Date.parse(line.until) - Date.parse(line.since);
    expect(reportedMs).toBe(waitMs ?? reportedMs);
    expect(ended.stderr).not.toMatch(new RegExp(`${API_KEY}|secret-4711`, "u"));
  },
);
