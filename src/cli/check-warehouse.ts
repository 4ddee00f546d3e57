import type { Db } from "../load/db/db.ts";
import { checkInput as inspectInput } from "../load/inputs/check-input.ts";
import { checkDatabase, isMigrated } from "../load/db/setup.ts";
import { checkErasureKey } from "../load/erasure/keep-out-sql.ts";
import { join } from "node:path";
import type { Config, InputConfig, SegmentPushJobConfig } from "../config/config.ts";
import { inputSourceOf } from "../jobs/lookup/lookup-spec.ts";
import { checkServiceHost } from "../jobs/service-host.ts";
import { inspectSource, sourcesOf } from "../jobs/verify-inputs.ts";
import { findPackagedBinaries } from "../load/embedded/binaries.ts";
import { attempt, type Finding, findingsOf } from "./check-finding.ts";
import type { Context } from "./context.ts";
import { counted } from "./figures.ts";
import { isStillToBeMade, openConfiguredWarehouse, openUnconnected } from "./open-warehouse.ts";

/** What `check` found of the warehouse; the warehouse is null where it can't be looked into. */
export interface WarehouseFindings {
  readonly findings: readonly Finding[];
  readonly db: Db | null;
}

/** Whether the warehouse answers, lets us in and has not been filled from another service. Creates nothing. */
export async function checkWarehouse(context: Context, config: Config): Promise<WarehouseFindings> {
  const subject = "warehouse";
  if (await isStillToBeMade(config)) {
    const message = `the embedded database will be made in ${join(config.dataDir, "postgres")} by the first run`;
    const findings = await attempt(subject, () => {
      findPackagedBinaries();
      return [{ subject, status: "ok", message }];
    });
    return { findings, db: null };
  }
  let db: Db | null = null;
  const findings = await attempt(subject, async () => {
    const opened = await openConfiguredWarehouse(context, config);
    db = opened.db;
    const lines = await checkDatabase(opened.db);
    return [
      ...lines.map(({ ok, ...line }): Finding => ({ ...line, status: ok ? "ok" : "wrong" })),
      ...(await attempt("service of the warehouse", async () => {
        await checkServiceHost(config, opened.db);
        return [];
      })),
      ...(await attempt("key of erased people", async () => {
        await checkErasureKey(opened.db);
        return [];
      })),
    ];
  });
  return { findings, db };
}

/** Whether an input can be read as configured: its table or query, columns and types. Reads no row. */
export async function checkInput(
  config: Config,
  input: InputConfig,
  db: Db | null,
): Promise<readonly Finding[]> {
  const subject = `input ${input.name}`;
  const isSample =
    config.service.baseUrl === "sandbox" && input.source.kind === "table" && input.connection === null;
  const sample: Finding = {
    subject,
    status: "ok",
    message: "does not exist yet; the first run makes it with sample rows",
  };
  if (db === null && input.connection === null) {
    return isSample
      ? [sample]
      : [{ subject, status: "warning", message: "can't be looked at, because the warehouse can't" }];
  }
  return await attempt(subject, async () => {
    const source = await inputSourceOf(input, Object.keys(input.fields));
    // Inputs behind a connection can be looked at without the warehouse, which connects only when it is used itself.
    const reader = db ?? (await openUnconnected(config));
    try {
      const problems = await inspectInput(reader, source);
      if (isSample && problems.some(({ path }) => path === `inputs.${input.name}.table`)) return [sample];
      if (problems.length > 0) return findingsOf(subject, problems);
      const columns = new Set([...input.key, ...Object.values(input.fields).flat()]);
      return [{ subject, status: "ok", message: `can be read with ${counted(columns.size, "column")}` }];
    } finally {
      if (reader !== db) await reader.close();
    }
  });
}

/** Whether the query of a push can be read, and gives PIDs. Reads no row. */
export async function checkPush(
  config: Config,
  job: SegmentPushJobConfig,
  db: Db | null,
): Promise<readonly Finding[]> {
  const subject = `query of ${job.name}`;
  const [source] = sourcesOf(config, [job]);
  if (!source) return [];
  const later: Finding = {
    subject,
    status: "ok",
    message: "reads tables that the first run makes, which looks at it then",
  };
  if (db === null && job.connection === null) {
    return source.isOverOurTables && (await isStillToBeMade(config))
      ? [later]
      : [{ subject, status: "warning", message: "can't be looked at, because the warehouse can't" }];
  }
  return await attempt(subject, async () => {
    // As for inputs behind a connection.
    const reader = db ?? (await openUnconnected(config));
    try {
      const problems = await inspectSource(reader, source);
      if (problems.length === 0) {
        return [{ subject, status: "ok", message: "can be read and gives service_pid" }];
      }
      return source.isOverOurTables && !(await isMigrated(reader)) ? [later] : findingsOf(subject, problems);
    } finally {
      if (reader !== db) await reader.close();
    }
  });
}
