import type { Command } from "commander";
import { text } from "node:stream/consumers";
import { systemClock } from "../../clock.ts";
import {
  erasePeople,
  type EraseServices,
  type ErasurePlan,
  finishErasures,
  leaveSegments,
  type LeftSegments,
  planErasure,
  settleErasures,
  sumOf,
  verifySearch,
} from "../../jobs/erase/erase.ts";
import { checkServiceHost } from "../../jobs/prepare.ts";
import { migrate } from "../../load/db/migrate.ts";
import { dropTombstones, membershipsOf } from "../../load/erasure/remove.ts";
import { checkErasureKey, removeLostDisk, type Waiting } from "../../load/erasure/requests.ts";
import type { RowsByTable } from "../../load/erasure/subjects.ts";
import type { Identifiers } from "../../load/inputs/input.ts";
import {
  type AddCommand,
  type Context,
  type Outcome,
  parseSourceKey,
  requireYes,
  result,
} from "../command.ts";
import { UsageError } from "../failure.ts";
import { count, countText } from "../../figures.ts";
import { openConfig, openConfiguredWarehouse, openPublisher, openService } from "../app.ts";
import { renderTable } from "../output.ts";

interface EraseFlags {
  readonly pid?: readonly string[];
  readonly email?: readonly string[];
  readonly sourceKey?: readonly string[];
  readonly dryRun?: boolean;
  readonly evenIfUnknown?: boolean;
  readonly removeFromSegments?: boolean;
  readonly yes?: boolean;
  readonly diskGone?: string;
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** `erase`: removes people from every table, file and destination, and suppresses them in later runs. */
export const addErase: AddCommand = (program, act) => {
  program
    .command("erase")
    .description("remove people from all tables, files and destinations, and suppress them in later runs")
    .option("--pid <pid>", "the person with this PID (repeatable; - reads standard input)", collect)
    .option("--email <address>", "everyone with this address (repeatable; - reads standard input)", collect)
    .option(
      "--source-key <source/key>",
      "the person in this input row (repeatable; - reads standard input)",
      collect,
    )
    .option("--dry-run", "show what would be removed; remove nothing")
    .option("--even-if-unknown", "exit with 0 even if no one is found")
    .option("--remove-from-segments", "also remove them from the service's segments")
    .option("--disk-gone <host:folder>", "stop waiting for answers on a disk that is gone for good")
    .option("--yes", "skip the confirmation")
    .action((flags: EraseFlags, command: Command) =>
      act(command, (context) => erase(context, flags), { status: "failed" }),
    );
};

async function erase(context: Context, flags: EraseFlags): Promise<Outcome> {
  const config = await openConfig(context);
  const named = flags.diskGone === undefined ? await namedBy(flags, config.inputs) : null;
  const { db } = await openConfiguredWarehouse(context, config);
  await checkServiceHost(config, db);
  await verifySearch({ config, db });
  await migrate(db);
  await checkErasureKey(db);
  const { log, progress, stop } = context;
  const services: EraseServices = { config, db, clock: systemClock, log, signal: stop.signal, progress };
  if (named === null) return forgetDisk(services, flags.diskGone ?? "");
  if (flags.dryRun !== true) await finishErasures(services);
  const plan = await planErasure(services, named);
  if (flags.dryRun === true) return planned(plan);
  const { found } = plan;
  const removed = `${peopleText(found.people)}, ${countText(sumOf(plan.rows), "row")}`;
  const what = `This removes ${removed} permanently and suppresses them in later runs`;
  await requireYes(context, flags.yes, what, "removed");
  const leave = flags.removeFromSegments === true ? await openLeave(context, services, plan) : null;
  // Before removing the rows, which contain the segments, and again after the request, in case a push added someone.
  const leftBefore = leave && (await leave());
  const { erasureId, rows } = await erasePeople(services, found);
  const leftAfter = leave && (await leave());
  await openPublisher(context, config, db).publish();
  const waiting = (await settleErasures(services, [erasureId])).get(erasureId);
  if (waiting === undefined) throw new Error("the erasure was not judged");
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  const left = leftBefore && leftAfter && addLeft(leftBefore, leftAfter);
  return outcomeOf(plan, { erasureId, rows, waiting, left }, flags.evenIfUnknown === true);
}

async function forgetDisk(services: EraseServices, place: string): Promise<Outcome> {
  const [host = "", ...folder] = place.split(":");
  if ((await removeLostDisk(services.db, { host, folder: folder.join(":") })) === 0) {
    throw new UsageError(
      `No erasure waits for ${place}. Copy host and folder from the message of \`erase\`.`,
    );
  }
  await finishErasures(services);
  return result({ disk_gone: place }, `✓ Erasures no longer wait for ${place}.`);
}

async function openLeave(
  context: Context,
  services: EraseServices,
  { found }: ErasurePlan,
): Promise<() => Promise<LeftSegments>> {
  const { http, createLimiter } = await openService(context, services.config);
  // Must be read before the rows are removed.
  const memberships = await membershipsOf(services.db, found.people.pids);
  const limiter = createLimiter();
  return () => leaveSegments({ ...services, http, limiter, random: Math.random }, memberships);
}

function addLeft(first: LeftSegments, second: LeftSegments): LeftSegments {
  return { segments: Math.max(first.segments, second.segments), removed: first.removed + second.removed };
}

/** Parses the flags; `-` reads lines from standard input. */
async function namedBy(
  { pid = [], email = [], sourceKey = [] }: EraseFlags,
  inputs: Readonly<Record<string, { readonly key: readonly string[] }>>,
): Promise<Identifiers> {
  const lists = [pid, email, sourceKey];
  if (lists.every((values) => values.length === 0)) {
    throw new UsageError("Name the person: --pid, --email or --source-key. See person-etl erase --help.");
  }
  if (lists.filter((values) => values.includes("-")).length > 1) {
    throw new UsageError("Only one of --pid, --email and --source-key can read standard input.");
  }
  const [pids = [], emails = [], keys = []] = await Promise.all(lists.map(withStandardInput));
  if ([...pids, ...emails].some((value) => value.trim() === "")) {
    throw new UsageError("--pid and --email require a value.");
  }
  return { pids, emails, rows: keys.map((key) => parseSourceKey(key, inputs)) };
}

async function withStandardInput(values: readonly string[]): Promise<readonly string[]> {
  if (!values.includes("-")) return values;
  const lines = (await text(process.stdin)).split(/\r?\n/).filter((line) => line !== "");
  if (lines.length === 0) throw new UsageError("Standard input is empty.");
  return [...values.filter((value) => value !== "-"), ...lines];
}

function peopleText({ pids, emails, rows }: Identifiers): string {
  return (
    `everyone identified by ${countText(pids.length, "PID")}, ${countText(emails.length, "address", "addresses")} and ` +
    countText(rows.length, "input row")
  );
}

interface Erased {
  readonly erasureId: string;
  readonly rows: RowsByTable;
  readonly waiting: readonly Waiting[];
  readonly left: LeftSegments | null;
}

function countsOf({ found: { people, sharedEmails } }: ErasurePlan, rows: RowsByTable) {
  return {
    pids: people.pids.length,
    email_addresses: people.emails.length,
    input_rows: people.rows.length,
    shared_email_addresses: sharedEmails,
    rows,
    rows_removed: sumOf(rows),
  };
}

/** Addresses that stay, one a line; the output is the user's receipt, not a log. */
function sharedText({ found: { sharedEmails } }: ErasurePlan): readonly string[] {
  if (sharedEmails.length === 0) return [];
  const stays = sharedEmails.length === 1 ? "stays" : "stay";
  return [
    [
      `${countText(sharedEmails.length, "address", "addresses")} shared with others ${stays}; --email erases everyone with it:`,
      ...sharedEmails.map((address) => `  ${address}`),
    ].join("\n"),
  ];
}

function planned(plan: ErasurePlan): Outcome {
  const text = [
    `This would erase ${peopleText(plan.found.people)}. Nothing was removed.`,
    tableOf(plan.rows, "rows to remove"),
    ...sharedText(plan),
  ];
  const document = { status: "planned", erasure_id: null, ...countsOf(plan, plan.rows), rows_removed: 0 };
  return result(document, text.join("\n\n"));
}

function outcomeOf(
  plan: ErasurePlan,
  { erasureId, rows, waiting, left }: Erased,
  evenIfUnknown: boolean,
): Outcome {
  const status = !plan.isKnown ? "unknown" : waiting.length > 0 ? "pending" : "done";
  const who = peopleText(plan.found.people);
  const headline = {
    unknown: `No one found. Recorded for later: no run will send or store ${who} (erasure ${erasureId}).`,
    pending: `Erased ${who} here, but the erasure is still pending (erasure ${erasureId}). The next run, or erase, finishes it.`,
    done: `✓ Erased ${who}; no later run will send or store them (erasure ${erasureId}).`,
  }[status];
  const text = [
    headline,
    ...(plan.isKnown ? [tableOf(rows, "rows removed")] : []),
    ...sharedText(plan),
    ...(left
      ? [
          `The service removed ${countText(left.removed, "membership")} from ${countText(left.segments, "segment")}.`,
        ]
      : []),
    ...waiting.map((one) => `! Waiting for ${waitingText(one)}.`),
  ];
  const document = {
    status,
    erasure_id: erasureId,
    ...countsOf(plan, rows),
    waiting_for: waiting,
    ...(left ? { segments_left: left.segments, memberships_removed: left.removed } : {}),
  };
  const exitCode = status === "unknown" ? (evenIfUnknown ? 0 : 1) : status === "pending" ? 3 : 0;
  return result(document, text.join("\n\n"), exitCode);
}

function waitingText({ kind, name, host, folder }: Waiting): string {
  if (kind === "run") return `the run of ${name} to finish`;
  if (kind === "destination") return `destination ${name} to be published`;
  if (host === undefined) return `a run of ${name} to load the answers it received`;
  return (
    `a run of ${name} on ${host} to load the answers that it may have received in ${folder}. If that disk is gone: ` +
    `person-etl erase --disk-gone ${host}:${folder}`
  );
}

function tableOf(rows: RowsByTable, heading: string): string {
  const entries = Object.entries(rows);
  if (entries.length === 0) return "No table has rows of these people.";
  return renderTable(
    [{ name: "table" }, { name: heading, isNumber: true }],
    entries.map(([table, number]) => [table, count(number)]),
    null,
  );
}
