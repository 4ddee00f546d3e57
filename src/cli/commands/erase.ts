import { text as readText } from "node:stream/consumers";
import { localServices, openConfig, openPublisher, openService, openWarehouseOf } from "../app.ts";
import { type Context, hintForInput, newRunId, parseSourceKey, requireYes, result } from "../command.ts";
import { failureOf, UsageError } from "../failure.ts";
import { paragraphs, table, type Text } from "../output.ts";
import type { Config } from "../../config/config.ts";
import { InterruptedError } from "../../errors.ts";
import { count, countText } from "../../figures.ts";
import {
  erasePeople,
  type EraseServices,
  type ErasurePlan,
  finishErasures,
  leaveSegments,
  type LeftSegments,
  planErasure,
  closeErasures,
  sumOf,
  verifySearch,
} from "../../jobs/erase/erase.ts";
import { checkServiceHost, identifyService } from "../../jobs/service-identity.ts";
import { migrate } from "../../load/db/migrate.ts";
import { dropTombstones } from "../../load/erasure/remove.ts";
import { checkErasureKey, removeLostDisk, type Waiting } from "../../load/erasure/requests.ts";
import type { RowsByTable } from "../../load/erasure/subjects.ts";
import type { Identifiers } from "../../load/inputs/input.ts";
import type { Log } from "../../log.ts";

interface EraseFlags {
  readonly pid?: readonly string[];
  readonly email?: readonly string[];
  readonly sourceKey?: readonly string[];
  readonly dryRun?: boolean;
  readonly ignoreMissing?: boolean;
  /** Former name of `ignoreMissing`. */
  readonly evenIfUnknown?: boolean;
  readonly removeFromSegments?: boolean;
  readonly yes?: boolean;
  readonly diskGone?: string;
}

/** Removes people from every table, file and destination, and suppresses them in later runs. */
export async function erase(context: Context, flags: EraseFlags) {
  const config = await openConfig(context);
  const named = flags.diskGone === undefined ? await namedBy(flags, config) : null;
  const strange = [...new Set(named?.rows.map(({ source }) => source))].filter(
    (source) => !Object.hasOwn(config.inputs, source),
  );
  const { db } = await openWarehouseOf(context, config);
  await checkServiceHost(config, db);
  await verifySearch({ config, db });
  await migrate(db);
  await checkErasureKey(db);
  const services = localServices(context, config, db);
  if (named === null) return await forgetDisk(services, flags.diskGone ?? "");
  if (flags.dryRun === true) return planned(await planErasure(services, named), flags);
  await finishErasures(services);
  const plan = await planErasure(services, named);
  const erasedText = plan.erasedAt === null ? "" : `; already erased on ${dayOf(plan.erasedAt)}`;
  const rowsToRemove = countText(sumOf(plan.rows), "row") + erasedText;
  const still = stillText(plan, flags, "add --remove-from-segments to remove them there, too");
  const removes = `This permanently removes ${identifiersText(plan)} and everything stored about them (${rowsToRemove}), and suppresses them in later runs`;
  const what = still === "" ? removes : `${removes}. ${still}`;
  await requireYes(context, flags.yes, what, "removed");
  const leave = flags.removeFromSegments === true ? await openLeave(context, services) : null;
  // Before the request, and again at the end, in case a push added someone.
  const leftBefore = await leave?.(plan.found.people.pids);
  const { erasureId, rows, pids } = await erasePeople(services, plan.found);
  await (await openPublisher(context, config, db)).publish();
  const waiting = (await closeErasures(services, [erasureId])).get(erasureId);
  if (waiting === undefined) throw new Error("the erasure has no end");
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  const left = leave && leftBefore ? await leaveAgain(leave, pids, leftBefore, services.log) : null;
  const notes = strange.map(
    (source) => `! There is no input ${source}. ${hintForInput(source, Object.keys(config.inputs))}`,
  );
  return outcomeOf(plan, { erasureId, rows, waiting, left, notes }, flags);
}

async function forgetDisk(services: EraseServices, place: string) {
  const [host = "", ...folder] = place.split(":");
  if ((await removeLostDisk(services.db, { host, folder: folder.join(":") })) === 0) {
    throw new UsageError(
      `No erasure waits for ${place}. Copy host and folder from the message of \`erase\`.`,
    );
  }
  await finishErasures(services);
  return result({ disk_gone: place }, `✓ Erasures no longer wait for ${place}.`);
}

type Leave = (pids: readonly string[]) => Promise<LeftSegments>;

async function openLeave(context: Context, services: ReturnType<typeof localServices>): Promise<Leave> {
  const { http, createLimiter } = await openService(context, services.config);
  const limiter = createLimiter();
  // For another organization's key, every segment is deleted.
  await identifyService({ ...services, http }, newRunId());
  return (pids) => leaveSegments({ ...services, http, limiter }, pids);
}

interface Left extends LeftSegments {
  /** Those asked for, people found since the plan included. */
  readonly pids: readonly string[];
  /** Why the service couldn't be asked again; null if it was. */
  readonly failure: string | null;
}

/** Leaves segments into which a push put someone meanwhile. The rows are gone by now, so a failure is part of the outcome. */
async function leaveAgain(
  leave: Leave,
  pids: readonly string[],
  before: LeftSegments,
  log: Log,
): Promise<Left> {
  try {
    const { segments, removed, refused } = await leave(pids);
    return {
      pids,
      segments: Math.max(before.segments, segments),
      removed: before.removed + removed,
      refused: [...new Set([...before.refused, ...refused])],
      failure: null,
    };
  } catch (error) {
    if (error instanceof InterruptedError) throw error;
    log.debug({ error }, "command_threw");
    return { ...before, pids, failure: failureOf(error, "asking the service again").message };
  }
}

/** Parses the flags; `-` reads lines from standard input. */
async function namedBy(flags: EraseFlags, { inputs }: Config): Promise<Identifiers> {
  const lists = [flags.pid ?? [], flags.email ?? [], flags.sourceKey ?? []];
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
  const rows = keys
    .map((key) => parseSourceKey(key, inputs))
    .map(({ source, sourceKey }) => ({ source, sourceKey }));
  return { pids, emails, rows };
}

async function withStandardInput(values: readonly string[]): Promise<readonly string[]> {
  if (!values.includes("-")) return values;
  const lines = (await readText(process.stdin)).split(/\r?\n/).filter((line) => line !== "");
  if (lines.length === 0) throw new UsageError("Standard input is empty.");
  return [...values.filter((value) => value !== "-"), ...lines];
}

/** `1 PID, 2 e-mail addresses and 1 input row`, without those of which there are none. */
function identifiersText({ found: { people } }: ErasurePlan): string {
  const texts = [
    people.pids.length > 0 ? countText(people.pids.length, "PID") : "",
    people.emails.length > 0 ? countText(people.emails.length, "e-mail address", "e-mail addresses") : "",
    people.rows.length > 0 ? countText(people.rows.length, "input row") : "",
  ].filter((text) => text !== "");
  return new Intl.ListFormat("en-US").format(texts);
}

/** `2026-11-27` */
const dayOf = (instant: string) => instant.slice(0, 10);

/** Memberships that stay at the service, and the next step; empty for none. */
function stillText(
  { memberOf, erasedAt }: ErasurePlan,
  { removeFromSegments }: EraseFlags,
  next: string,
): string {
  if (removeFromSegments === true || (memberOf === 0 && erasedAt === null)) return "";
  if (memberOf === 0) return `Their segments at the service are no longer known here: ${next}`;
  return `Still a member of ${countText(memberOf, "segment")} at the service: ${next}`;
}

function countsOf(plan: ErasurePlan, rows: RowsByTable, { removeFromSegments }: EraseFlags) {
  const { people, sharedEmails } = plan.found;
  return {
    ...(plan.erasedAt === null ? {} : { already_erased_at: plan.erasedAt }),
    // After an erasure, the warehouse knows no segment of theirs.
    ...(removeFromSegments === true || plan.erasedAt !== null
      ? {}
      : { still_member_of_segments: plan.memberOf }),
    pids: people.pids.length,
    email_addresses: people.emails.length,
    input_rows: people.rows.length,
    shared_email_addresses: sharedEmails,
    rows,
    rows_removed: sumOf(rows),
  };
}

function planned(plan: ErasurePlan, flags: EraseFlags) {
  const still = stillText(plan, flags, "add --remove-from-segments to remove them there, too.");
  const text = paragraphs(
    `This would erase ${identifiersText(plan)}. Nothing was removed.`,
    plan.erasedAt === null ? "" : `Already erased on ${dayOf(plan.erasedAt)}.`,
    tableOf(plan.rows, "rows to remove"),
    sharedText(plan),
    still === "" ? "" : `! ${still}`,
    flags.removeFromSegments === true
      ? "They would also be removed from all known segments at the service."
      : "",
  );
  const counts = { ...countsOf(plan, plan.rows, flags), rows_removed: 0 };
  return result({ status: "planned", erasure_id: null, ...counts }, text);
}

function tableOf(rows: RowsByTable, heading: string): Text {
  const entries = Object.entries(rows);
  if (entries.length === 0) return "No table has rows of them.";
  return table(entries, { table: ([name]) => name, [heading]: ([, number]) => number });
}

/** Addresses that stay, one a line; the output is the user's receipt, not a log. */
function sharedText({ found: { sharedEmails: shared } }: ErasurePlan): readonly string[] {
  if (shared.length === 0) return [];
  const kept =
    shared.length === 1
      ? "1 e-mail address is shared with other people and stays"
      : `${count(shared.length)} e-mail addresses are shared with other people and stay`;
  return [`${kept}; --email erases everyone with an address:`, ...shared.map((address) => `  ${address}`)];
}

interface Erased {
  readonly erasureId: string;
  readonly rows: RowsByTable;
  readonly waiting: readonly Waiting[];
  /** Null if nobody was to leave segments. */
  readonly left: Left | null;
  /** Doubts about what was named. */
  readonly notes: readonly string[];
}

function outcomeOf(plan: ErasurePlan, { erasureId, rows, waiting, left, notes }: Erased, flags: EraseFlags) {
  const { ignoreMissing = false, evenIfUnknown = false } = flags;
  const isRepeat = plan.erasedAt !== null && sumOf(rows) === 0;
  const identifiers = identifiersText(plan);
  const ends = {
    unknown: {
      exitCode: ignoreMissing || evenIfUnknown ? 0 : 1,
      text: `No one found; check the spelling. Suppressed in later runs: ${identifiers} (erasure ${erasureId}).`,
    },
    pending: {
      exitCode: 3,
      text: `Erased ${identifiers} from the warehouse, but the erasure is still pending (erasure ${erasureId}). The next run or erase finishes it.`,
    },
    done: {
      exitCode: 0,
      text: isRepeat
        ? `✓ Already erased on ${dayOf(plan.erasedAt ?? "")}: no table has rows of ${identifiers}, and later runs will not send or store them (erasure ${erasureId}).`
        : `✓ Erased ${identifiers}; later runs will not send or store them (erasure ${erasureId}).`,
    },
  };
  const known = waiting.length > 0 ? "pending" : "done";
  const status = plan.isKnown || isRepeat ? known : "unknown";
  const { text, exitCode } = ends[status];
  const document = {
    status,
    erasure_id: erasureId,
    ...countsOf(plan, rows, flags),
    waiting_for: waiting,
    ...(left
      ? { segments_left: left.segments, memberships_removed: left.removed, segments_refused: left.refused }
      : {}),
    ...(left && left.failure !== null ? { segments_error: left.failure } : {}),
  };
  const still = stillText(plan, flags, "to remove them there, repeat with --pid PID --remove-from-segments.");
  const lines = paragraphs(
    text,
    ...notes,
    plan.isKnown && !isRepeat ? tableOf(rows, "rows removed") : "",
    sharedText(plan),
    still === "" ? "" : `! ${still} The table tombstone lists the PIDs.`,
    left ? leftText(left) : "",
    left && waiting.some(({ kind }) => kind === "run")
      ? "! A run that is still working may add them to a segment again: after it ends, repeat with --pid PID --remove-from-segments. The table tombstone lists the PIDs."
      : "",
    ...waiting.map((one) => `! Waiting for ${waitingText(one)}.`),
  );
  const isUnasked = plan.erasedAt !== null && left?.pids.length === 0;
  const mayStay = left !== null && (left.refused.length > 0 || left.failure !== null || isUnasked);
  return result(document, lines, exitCode === 0 && mayStay ? 3 : exitCode);
}

function leftText({ pids, segments, removed, refused, failure }: Left): readonly string[] {
  if (pids.length === 0) {
    return [
      "! No PID of them is known, so they left no segment: repeat with --pid PID --remove-from-segments. The table tombstone lists erased PIDs.",
    ];
  }
  const asked = `Asked the service to remove them from all known segments (${count(segments)}): it removed ${countText(removed, "membership")}.`;
  const unasked = `! It couldn't be asked again in case a run added them meanwhile: repeat with --pid PID --remove-from-segments. ${failure}`;
  const kept = `! The API key may not change segments ${refused.join(", ")}, so they may still be members: use a key that may, and repeat with --pid PID --remove-from-segments.`;
  return [asked, ...(failure === null ? [] : [unasked]), ...(refused.length === 0 ? [] : [kept])];
}

function waitingText({ kind, name, host, folder }: Waiting): string {
  if (kind === "run") return `the run of ${name} to finish`;
  if (kind === "destination") return `destination ${name} to be published`;
  if (host === undefined) return `a run of ${name} to load the responses that it received`;
  return (
    `a run of ${name} on ${host} to load the responses that it may have received in ${folder}. If that disk is gone: ` +
    `person-etl erase --disk-gone ${host}:${folder}`
  );
}
