import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { runCli, startCli } from "../cli/support/cli.ts";
import {
  configText,
  createCustomers,
  INSERT_CUSTOMERS,
  makeSetting,
  sampleRows,
  type Setting,
  startSandbox,
} from "../cli/support/setting.ts";
import { openRequestDoor } from "../support/bigquery/request-door.ts";
import { runSql } from "../support/run-sql.ts";
import { controlSandbox } from "../support/sandbox-control.ts";
import { seededRandom, testSeed } from "../support/seeded-random.ts";

const SEED = testSeed(5);

/** A destination behind a door, and how its processes are killed. */
interface KilledDestination {
  /** Address of its server, to which the door leads. */
  readonly server: string;
  readonly rows: number;
  /** Kills of the publishing process each night. */
  readonly kills: number;
  /** Longest time until a kill, and number of requests before one. */
  readonly mostMs: number;
  readonly mostRequests: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Adds its `publish:` for the address of the door, with the files that it names. */
  publishOf(door: string, setting: Setting): string | Promise<string>;
}

/** Questions of the nights to a destination. `url` is that of Postgres. */
interface Reads {
  /** Expects every table to equal Postgres; returns the number of rows. */
  expectEqual(url: string): Promise<number>;
  /** Tables that differ while it is down. */
  differing(url: string): Promise<readonly string[]>;
  /** Runs before the last publication, with the command that publishes. */
  beforeLast?(setting: Setting): Promise<void>;
}

/**
 * Runs three nights: with kills; with an erasure while the destination is down; sent again with kills. Each ends with
 * equal tables. Returns the PID of the person erased.
 */
export async function expectEqualNights(
  destination: KilledDestination,
  reads: Reads,
): Promise<{ readonly setting: Setting; readonly erased: string }> {
  const random = seededRandom(SEED, 13);
  const made = await makeSetting();
  const setting = { ...made, env: { ...made.env, ...destination.env } };
  const sandbox = await startSandbox(setting.cwd);
  await createCustomers(setting.url, destination.rows);
  const door = await openRequestDoor(destination.server);
  const publish = await destination.publishOf(door.url, setting);
  await writeFile(join(setting.cwd, "config.yaml"), publish + configText({ baseUrl: sandbox }));

  async function runNight(): Promise<void> {
    const { code, stdout, stderr } = await runCli(["run", "--yes"], setting);
    if (code !== 0) throw new Error(`the night failed (${code}):\n${stdout}${stderr}`);
  }

  /** Starts a run and publications one by one and kills each process: at a request to the destination, or after a while. */
  async function killed(...run: readonly string[]): Promise<readonly string[]> {
    const signals: string[] = [];
    for (const command of [run, ...Array.from({ length: destination.kills }, () => ["publish"])]) {
      const { child, result } = startCli(command, setting);
      if (random.chance(0.65)) {
        const moment = random.pick(["before", "during", "after"] as const);
        door.interrupt(random.below(destination.mostRequests), moment, () => child.kill("SIGKILL"));
      } else {
        await Promise.race([delay(1_000 + random.below(destination.mostMs)), result]);
        child.kill("SIGKILL");
      }
      await result;
      signals.push(child.signalCode ?? "ended");
    }
    // The last interruption may not have been reached.
    door.interrupt(Number.POSITIVE_INFINITY, "before", () => {});
    return signals;
  }

  expect(await killed("run", "--yes")).toContain("SIGKILL");
  await runNight();
  await expectPublished(setting);
  const first = await reads.expectEqual(setting.url);
  expect(first).toBeGreaterThan(3_000);

  door.goDown();
  await controlSandbox(sandbox, "/clock", { days: 75 });
  await runSql(
    setting.url,
    "UPDATE crm.customers SET city = 'Springfield', updated_at = '2026-11-01Z' WHERE id % 5 = 0; DELETE FROM crm.customers WHERE id % 17 = 3",
  );
  await runNight();
  const [person] = await setting.query("SELECT min(service_pid) AS pid FROM person_data.person");
  const erased = String(person?.["pid"]);
  const erase = await runCli(["erase", "--pid", erased, "--yes", "--json"], setting);
  expect([erase.code, JSON.parse(erase.stdout)]).toMatchObject([3, { status: "pending" }]);
  expect((await runCli(["publish", "--verify"], setting)).code).toBe(1);
  expect(await reads.differing(setting.url)).toContain("person");

  door.comeUp();
  await controlSandbox(sandbox, "/clock", { days: 75 });
  const added = sampleRows(destination.rows * 1.2).slice(destination.rows);
  await runSql(setting.url, INSERT_CUSTOMERS, [JSON.stringify(added)]);
  await killed("run", "--yes", "--resend");
  await runNight();
  await reads.beforeLast?.(setting);
  await expectPublished(setting);
  const last = await reads.expectEqual(setting.url);
  const open = "SELECT FROM person_data_ops.erasure_subject WHERE completed_at IS NULL";
  expect(await setting.query(open)).toEqual([]);
  process.stdout.write(`equal to Postgres everywhere (seed ${SEED}): ${first}, ${last} rows\n`);
  return { setting, erased };
}

/** Publishes and compares. */
export async function expectPublished(setting: Setting): Promise<void> {
  const { code, stdout, stderr } = await runCli(["publish", "--verify"], setting);
  expect([code, code === 0 ? "" : stdout + stderr]).toEqual([0, ""]);
}
