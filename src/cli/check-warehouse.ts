import type { Db } from "../load/db/db.ts";
import { checkDatabase, isMigrated } from "../load/db/setup.ts";
import { checkErasureKey } from "../load/erasure/requests.ts";
import { join } from "node:path";
import type { Config } from "../config/config.ts";
import type { ReadSource } from "../jobs/job-type.ts";
import { inspectSource } from "../jobs/read-source.ts";
import { checkServiceHost } from "../jobs/service-host.ts";
import { findPackagedBinaries } from "../load/embedded/binaries.ts";
import { attempt, type Finding, findingsOf } from "./check-finding.ts";
import type { Context } from "./context.ts";
import { countText } from "../figures.ts";
import { profileFindings } from "./input-profile.ts";
import { sampleInput } from "../load/inputs/check-input.ts";
import { profileOf } from "../load/inputs/profile-input.ts";
import { isNotCreatedYet, openConfiguredWarehouse, openUnconnected } from "./open-warehouse.ts";

/** Findings of `check` about the warehouse; `db` is null if it can't be read. */
interface WarehouseFindings {
  readonly findings: readonly Finding[];
  readonly db: Db | null;
  /** True if the tables exist. */
  readonly isSetUp: boolean;
}

/** Checks that the warehouse is reachable, grants access and has no data of another service. Creates nothing. */
export async function checkWarehouse(context: Context, config: Config): Promise<WarehouseFindings> {
  const subject = "warehouse";
  if (await isNotCreatedYet(config)) {
    const message = `the embedded database will be created in ${join(config.dataDir, "postgres")} by the first run`;
    const findings = await attempt(subject, () => {
      findPackagedBinaries();
      return [{ subject, status: "ok", message }];
    });
    return { findings, db: null, isSetUp: false };
  }
  let db: Db | null = null;
  let isSetUp = false;
  const findings = await attempt(subject, async () => {
    const opened = await openConfiguredWarehouse(context, config);
    db = opened.db;
    isSetUp = await isMigrated(opened.db);
    const lines = await checkDatabase(opened.db);
    const ofDatabase = lines.map(
      ({ ok, ...line }): Finding => ({ ...line, status: !ok ? "wrong" : line.hint ? "warning" : "ok" }),
    );
    // Without the privileges, the next checks would only report them again.
    if (lines.some(({ ok }) => !ok)) return ofDatabase;
    return [
      ...ofDatabase,
      ...(await attempt("service of the warehouse", async () => {
        await checkServiceHost(config, opened.db);
        return [];
      })),
      ...(await attempt("key of erased people", async () => {
        if (isSetUp) await checkErasureKey(opened.db);
        return [];
      })),
    ];
  });
  return { findings, db, isSetUp };
}

/** Checks a table or query that jobs read: its columns, types, keys, and a sample of an input's rows. Shows no value. */
export async function checkSource(
  config: Config,
  source: ReadSource,
  db: Db | null,
): Promise<readonly Finding[]> {
  const { subject, path } = source;
  const later: Finding | null = source.isOverOurTables
    ? { subject, status: "ok", message: "reads tables that the first run creates; that run checks it" }
    : null;
  const sample: Finding | null =
    config.service.baseUrl === "sandbox" && source.isTable && source.connection === null
      ? { subject, status: "ok", message: "doesn't exist yet; the first run creates it with sample rows" }
      : null;
  if (db === null && source.connection === null) {
    const unseen = sample ?? ((await isNotCreatedYet(config)) ? later : null);
    return [
      unseen ?? { subject, status: "warning", message: "can't be checked, because the warehouse can't" },
    ];
  }
  return await attempt(subject, async () => {
    // A source behind a connection can be read without the warehouse, which connects on first use.
    const reader = db ?? (await openUnconnected(config));
    try {
      const problems = await inspectSource(reader, source);
      if (problems.length === 0) {
        const readable: Finding = { subject, status: "ok", message: await readableText(source) };
        return [readable, ...(await profileSource(reader, source))];
      }
      if (sample && problems.some((problem) => problem.path === `${path}.table`)) return [sample];
      return later && !(await isMigrated(reader)) ? [later] : findingsOf(subject, problems);
    } finally {
      if (reader !== db) await reader.close();
    }
  });
}

/** Findings about the rows of an input. Tables of ours hold what the service sent. */
async function profileSource(db: Db, source: ReadSource): Promise<readonly Finding[]> {
  if (source.isPush || source.isOverOurTables) return [];
  const input = await source.open();
  const profile = profileOf(await sampleInput(db, input), input.normalize);
  return profileFindings(input, profile).map((line) => ({ subject: source.subject, ...line }));
}

async function readableText(source: ReadSource): Promise<string> {
  const { key, fields } = await source.open();
  if (source.isPush) return `can be read and returns ${key.join(", ")}`;
  const columns = new Set([...key, ...Object.values(fields).flat()]);
  return `can be read with ${countText(columns.size, "column")}`;
}
