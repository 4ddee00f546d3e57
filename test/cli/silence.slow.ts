import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { unusedPort } from "../support/unused-port.ts";
import { atEnd } from "./support/at-end.ts";
import { makeFolder, startCli } from "./support/cli.ts";
import { startService } from "./support/answering-service.ts";
import { startOnTerminal } from "./support/on-terminal.ts";
import { API_KEY, createCustomers, makeSetting, PEOPLE } from "./support/setting.ts";

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
  const setting = await makeSetting({
    baseUrl: `http://127.0.0.1:${port}`,
    service: "  concurrency: 1\n  requests_per_second: 2\n",
    jobs: RESOLVE,
  });
  await createCustomers(setting.url, 5000);
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
    address: `http://127.0.0.1:${port}`,
  };
}

/** Lines of a log with these events. */
function linesOf(stderr: string, events: readonly string[]) {
  const lines = stderr.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line)).filter(({ event }) => events.includes(event));
}

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
  const time = String.raw`\d\d:\d\d:\d\d UTC`;
  expect(gone).toMatchObject({ level: "warn", cause: "ECONNREFUSED" });
  expect(gone.text).toMatch(
    new RegExp(
      `^The service at ${address} has not responded since ${time} \\(ECONNREFUSED\\)\\. Trying until ${time}\\.$`,
    ),
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
  const setting = await makeSetting({ baseUrl: url, jobs: RESOLVE });
  await createCustomers(setting.url, 50);
  const run = startCli(["run"], setting);
  await run.logged("service_unreachable");
  run.child.kill("SIGTERM");
  const { code, stderr, stdout } = await run.result;
  expect(code).toBe(143);
  const [line] = linesOf(stderr, ["service_unreachable"]);
  expect(line.text).toMatch(
    /^The service at \S+ has not responded since [\d:]+ UTC\. Waiting until [\d:]+ UTC\.$/,
  );
  expect(Date.parse(line.until) - Date.parse(line.since)).toBe(120_000);
  expect(stdout).toContain("Up to 48 records may have been billed without a response.");
});

/** Port of a server that accepts connections and never responds. */
async function silentPort(): Promise<number> {
  const server = createServer((socket) => socket.on("error", () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.close();
  });
  const address = server.address();
  return typeof address === "object" ? (address?.port ?? 0) : 0;
}

test.concurrent("a service that says nothing to the first free call is reported, and given up after 25 s", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const address = `http://127.0.0.1:${await silentPort()}`;
  const setting = await makeSetting({ baseUrl: address, jobs: RESOLVE });
  await createCustomers(setting.url, 50);
  const { code, stderr } = await startCli(["run"], setting).result;
  expect(code).toBe(1);
  const [line, ...others] = linesOf(stderr, ["service_unreachable", "service_back"]);
  expect(line.text).toMatch(
    new RegExp(
      `^The service at ${address} has not responded since [\\d:]+ UTC\\. Waiting until [\\d:]+ UTC\\.$`,
    ),
  );
  expect(Date.parse(line.until) - Date.parse(line.since)).toBe(25_000);
  expect(others).toEqual([]);
});

test.concurrent("a warehouse that accepts connections and never responds is reported", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const port = await silentPort();
  const setting = await makeSetting({ jobs: RESOLVE });
  const env = { ...setting.env, WAREHOUSE_URL: `postgresql://loader:secret-4711@127.0.0.1:${port}/crm` };
  const run = startCli(["run"], { ...setting, env });
  await run.logged("warehouse_unreachable");
  run.child.kill("SIGKILL");
  const { stderr } = await run.result;
  const [line] = linesOf(stderr, ["warehouse_unreachable"]);
  expect(line.text).toMatch(
    new RegExp(
      `^The warehouse \\(Postgres at 127\\.0\\.0\\.1:${port}/crm\\) has not responded since [\\d:]+ UTC\\.$`,
    ),
  );
  expect(stderr).not.toContain(API_KEY);
});

test.concurrent("destinations that accept connections and never respond are reported", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const address = `http://127.0.0.1:${await silentPort()}`;
  const copies = `publish:
  lake: { type: iceberg, catalog: ${address}, warehouse: people }
  analytics: { type: bigquery, project: crm-people, location: EU, dataset: people, ops_dataset: people_ops, api_endpoint: ${address} }
`;
  const setting = await makeSetting({ rows: 10, jobs: `${RESOLVE}${copies}` });
  const reported = async (name: string) => {
    const publishing = startCli(["publish", name], setting);
    await publishing.logged("destination_unreachable");
    publishing.child.kill("SIGKILL");
    const { stderr } = await publishing.result;
    return linesOf(stderr, ["destination_unreachable"])[0]?.text;
  };
  const migrated = await startCli(["migrate"], setting).result;
  expect([migrated.code, migrated.stdout]).toEqual([0, expect.anything()]);
  const since = String.raw`has not responded since [\d:]+ UTC\. Waiting until [\d:]+ UTC\.$`;
  expect(await reported("lake")).toMatch(new RegExp(`^Destination lake \\(iceberg\\) ${since}`));
  expect(await reported("analytics")).toMatch(new RegExp(`^Destination analytics \\(bigquery\\) ${since}`));
});
