import { migrate } from "../../load/db/setup.ts";
import { dropTombstones } from "../../load/erasure/erase-people.ts";
import { checkErasureKey } from "../../load/erasure/keep-out-sql.ts";
import type { Command } from "commander";
import { systemClock } from "../../clock.ts";
import { LimitReachedError } from "../../errors.ts";
import type { SpoolClearing } from "../../jobs/erase/clear-spool.ts";
import {
  carryOutErasure,
  type ErasurePlan,
  type ErasureResult,
  type EraseServices,
  finishErasures,
  planErasure,
  sumOf,
  verifySearch,
} from "../../jobs/erase/erase.ts";
import { leaveSegments, type LeftSegments } from "../../jobs/erase/leave-segments.ts";
import { checkServiceHost } from "../../jobs/service-host.ts";
import type { KnownBy } from "../../load/lookup.ts";
import { isYes } from "../ask.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../failure.ts";
import { count, counted } from "../figures.ts";
import { openConfig } from "../open-config.ts";
import { openService } from "../open-service.ts";
import { openConfiguredWarehouse } from "../open-warehouse.ts";
import type { Outcome } from "../outcome.ts";
import { parseSourceKey } from "../parse-source-key.ts";
import { renderTable } from "../text-table.ts";

interface EraseFlags {
  readonly pid: readonly string[];
  readonly email: readonly string[];
  readonly sourceKey: readonly string[];
  readonly dryRun?: boolean;
  readonly removeFromSegments?: boolean;
  readonly yes?: boolean;
}

const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];
const none: readonly string[] = [];

/** `erase`: removes people from every table and file, and keeps them out. */
export const addErase: AddCommand = (program, act) => {
  program
    .command("erase")
    .description("remove people from every table and file, and keep them out of all later runs")
    .option("--pid <pid>", "the person of this PID (may be repeated)", collect, none)
    .option("--email <address>", "whoever has this address (may be repeated)", collect, none)
    .option("--source-key <source/key>", "whoever this input row is about (may be repeated)", collect, none)
    .option("--dry-run", "tell what would be removed, and remove nothing")
    .option("--remove-from-segments", "remove them from the service's segments too")
    .option("--yes", "answer the question with yes")
    .action((flags: EraseFlags, command: Command) =>
      act(command, (context) => erase(context, flags), { status: "failed" }),
    );
};

async function erase(context: Context, flags: EraseFlags): Promise<Outcome> {
  const named = namedBy(flags);
  const config = await openConfig(context);
  const { db } = await openConfiguredWarehouse(context, config);
  await checkServiceHost(config, db);
  await verifySearch({ config, db });
  await migrate(db);
  await checkErasureKey(db);
  const { log, progress, stop } = context;
  const services: EraseServices = {
    config,
    db,
    clock: systemClock,
    log,
    signal: stop.signal,
    progress,
  };
  if (flags.dryRun !== true) await finishErasures(services);
  const plan = await planErasure(services, named);
  for (const { source } of named.rows) {
    if (config.inputs[source] || sumOf(plan.rows) > 0) continue;
    throw new UsageError(
      `--source-key names no input of the configuration (${Object.keys(config.inputs).join(", ")}), and no row of any table.`,
    );
  }
  if (flags.dryRun === true) return outcomeOf(plan, null);
  await agree(context, flags, plan);
  const leave = flags.removeFromSegments === true ? await openLeave(context, services, plan) : null;
  const result = await carryOutErasure(services, plan.found, leave);
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  return outcomeOf(plan, result);
}

async function openLeave(
  context: Context,
  services: EraseServices,
  { found }: ErasurePlan,
): Promise<() => Promise<LeftSegments>> {
  const { http, limiter } = await openService(context, services.config);
  return () => leaveSegments({ ...services, http, limiter, random: Math.random }, found.people.pids);
}

function namedBy({ pid, email, sourceKey }: EraseFlags): KnownBy {
  if (pid.length + email.length + sourceKey.length === 0) {
    throw new UsageError("Name whom to erase: --pid, --email or --source-key. See person-etl erase --help.");
  }
  for (const value of [...pid, ...email]) {
    if (value.trim() === "") throw new UsageError("--pid and --email need a value.");
  }
  return { pids: pid, emails: email, rows: sourceKey.map(parseSourceKey) };
}

async function agree({ ask }: Context, { yes }: EraseFlags, { found, rows }: ErasurePlan): Promise<void> {
  if (yes === true) return;
  const what = `This removes ${peopleText(found.people)}, ${counted(sumOf(rows), "row")}, for good and keeps them out of all later runs`;
  if (!ask) {
    throw new LimitReachedError(
      "confirmation",
      `${what}. Nothing was removed; run again with --yes to agree.`,
    );
  }
  if (isYes(await ask(`${what}. Go on? [y/N] `))) return;
  throw new LimitReachedError("confirmation", `${what}. Nothing was removed, as you said no.`);
}

function peopleText({ pids, emails, rows }: KnownBy): string {
  return (
    `whoever is known by ${counted(pids.length, "PID")}, ${counted(emails.length, "address", "addresses")} and ` +
    counted(rows.length, "input row")
  );
}

function outcomeOf({ found: { people }, rows }: ErasurePlan, result: ErasureResult | null): Outcome {
  const left = result?.left ?? null;
  const removed = result?.rows ?? rows;
  const spool = result?.spool;
  const document = {
    status: result === null ? "planned" : "succeeded",
    erasure_id: result?.erasureId ?? null,
    pids: people.pids.length,
    email_addresses: people.emails.length,
    input_rows: people.rows.length,
    rows: removed,
    rows_removed: sumOf(removed),
    ...(left ? { segments_left: left.segments, memberships_removed: left.removed } : {}),
    ...(spool
      ? {
          loaded_calls: spool.loadedCalls,
          removed_files: spool.removedFiles,
          waiting_answers: spool.waiting,
        }
      : {}),
  };
  return { document, text: render(document, people, { waiting: spool?.waiting ?? [], left }), exitCode: 0 };
}

function render(
  document: { readonly erasure_id: string | null; readonly rows: Readonly<Record<string, number>> },
  people: KnownBy,
  { waiting, left }: { readonly waiting: SpoolClearing["waiting"]; readonly left: LeftSegments | null },
): string {
  const isPlan = document.erasure_id === null;
  const who = peopleText(people);
  const rows = Object.entries(document.rows);
  return [
    isPlan
      ? `This would erase ${who}. Nothing was removed.`
      : `✓ Erased ${who}; no later run sends or stores them (erasure ${document.erasure_id ?? ""}).`,
    rows.length === 0
      ? "No table has a row of them."
      : renderTable(
          [{ name: "table" }, { name: isPlan ? "rows to remove" : "rows removed", isNumber: true }],
          rows.map(([table, number]) => [table, count(number)]),
          null,
        ),
    ...(left
      ? [
          `The service has removed ${counted(left.removed, "membership")} of ${counted(left.segments, "segment")}.`,
        ]
      : []),
    ...waiting.map(
      ({ job, calls }) =>
        `! ${job} is running and keeps ${counted(calls, "received answer")} on disk; it loads them without the erased.`,
    ),
  ].join("\n\n");
}
