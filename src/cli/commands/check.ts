import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import { orderJobs } from "../../config/order-jobs.ts";
import { jobTypeOf } from "../../jobs/registry.ts";
import { sourcesOf } from "../../jobs/verify-inputs.ts";
import { checkDataDir } from "../check-data-dir.ts";
import { attempt, exitCodeOfFindings, type Finding, renderFindings } from "../check-finding.ts";
import { checkService } from "../check-service.ts";
import { checkSource, checkWarehouse } from "../check-warehouse.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { countText, megabytes } from "../../figures.ts";
import { openConfig } from "../open-config.ts";
import { openService } from "../open-service.ts";
import type { Outcome } from "../outcome.ts";
import { openDestinations } from "../open-publisher.ts";
import type { Db } from "../../load/db/db.ts";
import { readCheckpoints } from "../../load/write/checkpoints.ts";
import { reportWaiting } from "../../jobs/lookup/waiting-answers.ts";
import { copiedText } from "../../jobs/publish/publication.ts";
import { readCopiedDestinations } from "../../load/publication/registration.ts";

/** `check`: verifies everything possible without changes or billed calls. */
export const addCheck: AddCommand = (program, act) => {
  program
    .command("check")
    .description(
      "check configuration, API key, endpoints, warehouse, privileges, inputs, queries, destinations and data_dir; changes nothing",
    )
    .action((_flags: object, command: Command) => act(command, check, { checks: [] }));
};

async function check(context: Context): Promise<Outcome> {
  const config = await openConfig(context);
  const { findings: ofWarehouse, db, isSetUp } = await checkWarehouse(context, config);
  const findings: Finding[] = [...checkConfig(config)];
  findings.push(
    ...(await attempt("data_dir", () =>
      checkDataDir(config.dataDir, {
        isEmbedded: config.warehouse.url === "embedded",
      }),
    )),
    ...(await attempt("spool", () => checkSpool(config, isSetUp ? db : null))),
    ...ofWarehouse,
  );
  for (const source of sourcesOf(config, orderJobs(config))) {
    findings.push(...(await checkSource(config, source, db)));
  }
  if (db !== null && isSetUp) findings.push(...(await checkJobs(config, db)));
  findings.push(...(await checkDestinations(config)));
  if (db !== null && isSetUp) findings.push(...(await copiedDestinations(db)));
  findings.push(...(await attempt("service", () => checkConfiguredService(context, config))));
  return outcomeOf(findings);
}

function checkConfig(config: Config): Finding[] {
  const jobs = orderJobs(config);
  return [
    {
      subject: "configuration",
      status: "ok",
      message: `${config.file}: ${countText(jobs.length, "job")}, ${countText(Object.keys(config.inputs).length, "input")}`,
    },
    ...config.warnings.map(
      ({ path, message, line, hint }): Finding => ({
        subject: "configuration",
        status: "warning",
        message: `${path}${line === undefined ? "" : ` (line ${line})`}: ${message}`,
        ...(hint === undefined ? {} : { hint }),
      }),
    ),
  ];
}

/** Reports what the jobs say about their next run. */
async function checkJobs(config: Config, db: Db): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const job of orderJobs(config)) {
    const type = jobTypeOf(job);
    const subject = `jobs.${job.name}`;
    const ofJob = attempt(subject, async () => {
      const texts = type.remarks?.(job, await readCheckpoints(db, job.name)) ?? [];
      return texts.map((message): Finding => ({ subject, status: "warning", message }));
    });
    findings.push(...(await ofJob));
  }
  return findings;
}

async function checkConfiguredService(context: Context, config: Config): Promise<readonly Finding[]> {
  if (config.service.baseUrl === "sandbox") {
    const { people, seed } = config.sandbox;
    const message = `the sandbox starts automatically and needs no key (seed ${seed}, ${countText(people, "person", "people")})`;
    return [{ subject: "service", status: "ok", message }];
  }
  const { http } = await openService(context, config);
  const endpoints = new Map(
    orderJobs(config)
      .flatMap((job) => jobTypeOf(job).endpoints)
      .map((endpoint) => [endpoint.name, endpoint] as const),
  );
  return await checkService(http, [...endpoints.values()], context.stop.signal);
}

function outcomeOf(findings: readonly Finding[]): Outcome {
  const exitCode = exitCodeOfFindings(findings);
  const bad = findings.filter(({ status }) => status === "wrong" || status === "unreachable");
  const verdict = bad.length === 0 ? "✓ All checks passed." : `✗ ${countText(bad.length, "problem")} found.`;
  return {
    document: {
      status: bad.length === 0 ? "succeeded" : "failed",
      checks: findings,
      ...(bad.length === 0 ? {} : { error: { code: "check_failed", message: verdict.slice(2) } }),
    },
    text: `${renderFindings(findings)}\n\n${verdict}`,
    exitCode,
  };
}

/** Checks access, privileges and settings of every destination; creates nothing. */
async function checkDestinations(config: Config): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const { destination, catalog } of openDestinations(config)) {
    const subject = `publish.${destination.name}`;
    findings.push(
      ...(await attempt(subject, async () => {
        try {
          const lines = await destination.check(catalog);
          return lines.map(({ ok, ...line }): Finding => ({ subject, ...line, status: ok ? "ok" : "wrong" }));
        } catch (error) {
          throw destination.explain(error);
        } finally {
          await destination.close();
        }
      })),
    );
  }
  return findings;
}

/** Warns of destinations that another copy of this database publishes to. */
function copiedDestinations(db: Db): Promise<readonly Finding[]> {
  return attempt("publish", async () => {
    const copied = await readCopiedDestinations(db);
    return copied.map((name): Finding => {
      return { subject: `publish.${name}`, status: "warning", message: copiedText(name) };
    });
  });
}

/** Checks received answers on disk: those to be loaded by the next run, and those that no run will load. */
async function checkSpool(config: Config, db: Db | null): Promise<readonly Finding[]> {
  const subject = "spool";
  const { byJob, remarks } = await reportWaiting(config, db);
  const waiting = [...byJob].map(([job, { calls, bytes }]): Finding => {
    const message = `${countText(calls, "received answer")} of ${job} (${megabytes(bytes)}) waiting for its next run`;
    return { subject, status: "ok", message };
  });
  const leftBehind = remarks.map(({ path, message, hint = "" }): Finding => {
    return { subject, status: "warning", message: `${path}: ${message}`, hint };
  });
  const nothing: Finding = { subject, status: "ok", message: "no received answer is waiting" };
  return waiting.length + leftBehind.length === 0 ? [nothing] : [...waiting, ...leftBehind];
}
