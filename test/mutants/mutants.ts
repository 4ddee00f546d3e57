/** A change of a line that a test must detect. */
export interface Mutant {
  /** Promise that the change breaks. */
  readonly breaks: string;
  readonly file: string;
  /** Occurs once in the file. */
  readonly from: string;
  readonly to: string;
  /** Test files that detect it soonest. */
  readonly tests: readonly string[];
  /** Pattern of the detecting tests' names; absent for all tests of the files. */
  readonly named?: string;
  /** Configuration of the suite; by default that of `npm test`. */
  readonly config?: string;
}

const ofPostgres = ["test/load/postgres/"];
const ofLocks = ["test/load/postgres-lock.test.ts"];
const ofBudgets = ["test/load/postgres-budgets.test.ts"];
const ofSpool = ["test/spool/spool.test.ts"];
const ofLookup = ["test/extract/lookup.test.ts"];
const ofRetry = ["test/extract/retry.test.ts"];
const ofUnlocks = ["test/jobs/search/audience-search.test.ts"];
const ofPublication = ["test/publish/publication.test.ts"];
const slow = "vitest.slow.config.ts";

/** Changes that would cost money or data, one per promise. Similar ones are neighbors, so that each part has some of each kind. */
export const mutants: readonly Mutant[] = [
  {
    breaks: "a runner that lost its lock can't commit",
    file: "src/load/runs/fence.ts",
    from: "WHERE ${isHeldBy(run)} FOR KEY SHARE",
    to: "WHERE ${isHeldBy(run)}",
    tests: ofLocks,
    named: "a fence during a takeover",
  },
  {
    breaks: "a released lock is no lock",
    file: "src/load/runs/fence.ts",
    from: "AND epoch = ${epoch} AND released_at IS NULL",
    to: "AND epoch = ${epoch}",
    tests: ofPostgres,
    named: "after its lock was released",
  },
  {
    breaks: "a lock is taken over only once it has expired",
    file: "src/load/runs/job-lock.ts",
    from: 'expires_at <= clock_timestamp() AS "isExpired"',
    to: 'heartbeat_at <= clock_timestamp() AS "isExpired"',
    tests: ofPostgres,
    named: "is (held|acquired) by one",
  },
  {
    breaks: "an owner that renews its lock during a takeover keeps it",
    file: "src/load/runs/job-lock.ts",
    from: "if (lateRefusal) return lateRefusal;",
    to: "",
    tests: ofLocks,
    named: "renews its expired lock",
  },
  {
    breaks: "sessions of a former owner are ended",
    file: "src/load/runs/job-lock.ts",
    from: "    await endSessions(session, inTheWay);\n    const takenOver",
    to: "    const takenOver",
    tests: ofLocks,
    named: "sessions that its former owner opened",
  },
  {
    breaks: "budgets are reserved by one process at a time",
    file: "src/load/ledger/reserve-call.ts",
    from: "      FOR UPDATE OF u),",
    to: "      ),",
    tests: ofBudgets,
  },
  {
    breaks: "a budget is never exceeded",
    file: "src/load/ledger/reserve-call.ts",
    from: "least(${call.records}::bigint, min(rest))",
    to: "least(${call.records}::bigint, min(rest) + 1)",
    tests: ofPostgres,
    named: "tightest limit",
  },
  {
    breaks: "a reservation whose reply was lost counts once",
    file: "src/load/ledger/reserve-call.ts",
    from: "const earlier = attempt > 1 || call.isWhole ? await",
    to: "const earlier = attempt > 9 || call.isWhole ? await",
    tests: ofBudgets,
    named: "counts a call that is reserved repeatedly",
  },
  {
    breaks: "no one who was erased after the selection is sent",
    file: "src/load/due/erased-records.ts",
    from: "if (key === null || epoch === erasureEpoch) return [];",
    to: "return [];",
    tests: ofPostgres,
    named: "is not reserved after it",
  },
  {
    breaks: "no more is sent than was granted",
    file: "src/jobs/lookup/reserve.ts",
    from: "if (limitedBy === null) return { granted, erased };",
    to: "if (limitedBy === null) return { granted: items.length, erased };",
    tests: ["test/jobs/lookup/budgets.slow.ts"],
    named: "grants a call what others have left",
    config: slow,
  },
  {
    breaks: "only calls that cost nothing are released",
    file: "src/load/ledger/give-back.ts",
    from: "return !possiblyBilled && recordsMatched === null;",
    to: "return recordsMatched === null;",
    tests: ofPostgres,
    named: "the outcome of a call",
  },
  {
    breaks: "an attempt whose reply was lost counts once",
    file: "src/load/ledger/record-attempts.ts",
    from: "if (entries.length > 0 && settled.size === 0) return;",
    to: "",
    tests: ofPostgres,
    named: "as its reply was lost, counts once",
  },
  {
    breaks: "a call without an answer is recorded as possibly billed",
    file: "src/extract/send-call.ts",
    from: "possiblyBilled: isPossiblyBilled(outcome),",
    to: "possiblyBilled: false,",
    tests: ["test/extract/lookup-retries.test.ts"],
    named: "calls that may have been charged",
  },
  {
    breaks: "a possibly billed call is repeated once",
    file: "src/extract/retry.ts",
    from: "const MAX_POSSIBLY_BILLED_TRIES = 2;",
    to: "const MAX_POSSIBLY_BILLED_TRIES = 3;",
    tests: ofRetry,
  },
  {
    breaks: "an empty list of results is no answer",
    file: "src/extract/decide.ts",
    from: "return isEmpty && !isConfirmed ?",
    to: "return isEmpty && isConfirmed ?",
    tests: ofLookup,
    named: "an answer without results",
  },
  {
    breaks: "an answer is on disk before it has its name",
    file: "src/spool/durable-file.ts",
    from: "      await file.sync();",
    to: "",
    tests: ofSpool,
    named: "is synced before",
  },
  {
    breaks: "the name of an answer survives a power cut",
    file: "src/spool/durable-file.ts",
    from: "    await syncNames();",
    to: "",
    tests: ofSpool,
    named: "is synced before",
  },
  {
    breaks: "an answer stays on disk until its rows are committed",
    file: "src/jobs/lookup/answers.ts",
    from: "  const { file, isUnloadable, store, lease } = answer;",
    to: "  const { file, isUnloadable, store, lease } = answer;\n  if (file) await spool.remove(file);",
    tests: ["test/jobs/lookup/loader.slow.ts"],
    named: "keeps no mark",
    config: slow,
  },
  {
    breaks: "an answer loaded twice changes nothing",
    file: "src/load/answers/commit-lookup.ts",
    from: "const isLoaded = commit.ledger.length > 0 && newCalls.size === 0;",
    to: "const isLoaded = false;",
    tests: ofPostgres,
    named: "applied twice",
  },
  {
    breaks: "commits survive a crash of the server",
    file: "src/load/db/session.ts",
    from: '  "SET LOCAL synchronous_commit = on",',
    to: "",
    tests: ofPostgres,
    named: "survives a crash of the server",
  },
  {
    breaks: "an emptied work table is no end of the work",
    file: "src/load/due/lookup-selection.ts",
    from: "      if (page.read === 0) {",
    to: "      if (page.read === 0) return;\n      if (page.read < 0) {",
    tests: ["test/load/postgres-foreign-inputs.test.ts"],
    named: "an emptied work table",
  },
  {
    breaks: "an answer isn't bought again before it expires",
    file: "src/load/due/classify.ts",
    from: "          WHEN due_at <= now() THEN 'expired'",
    to: "          WHEN due_at >= now() THEN 'expired'",
    tests: ofPostgres,
    named: "expires after refresh_after",
  },
  {
    breaks: "a resend in progress is continued, not restarted",
    file: "src/load/due/parameters.ts",
    from: "if (ours || (await isUnderWay(before))) return before;",
    to: "if (ours) return before;",
    tests: ofPostgres,
    named: "a resend under a cap",
  },
  {
    breaks: "an earlier call's answer changes no row",
    file: "src/load/answers/answered-rows.ts",
    from: "isReplaced: sql`coalesce(t.call_number, 0) <= excluded.call_number`",
    to: "isReplaced: sql`true`",
    tests: ofPostgres,
    named: "the answer of an earlier call",
  },
  {
    breaks: "an earlier call's answer changes no person",
    file: "src/load/answers/person-state.ts",
    from: "person.present?.[i] === false || callNumber < (state.callNumbers[i] ?? 0)",
    to: "person.present?.[i] === false",
    tests: ofPostgres,
    named: "the answer of an earlier call",
  },
  {
    breaks: "an earlier call of another job changes no validation",
    file: "src/load/answers/load-validations.ts",
    from: "        WHERE t.call_number <= excluded.call_number\n",
    to: "",
    tests: ofPostgres,
    named: "in any order of loading",
  },
  {
    breaks: "under a cap, rows that resolve rejected are sent last",
    file: "src/load/due/work-table.ts",
    from: "min(stratum) = 'unresolved', sent_hash",
    to: "sent_hash",
    tests: ofPostgres,
    named: "rows that resolve rejected are sent last",
  },
  {
    breaks: "an erasure removes rows again once the runs under way have ended",
    file: "src/load/erasure/requests.ts",
    from: 'NOT ${isHeldBack(names)} AS "isLast"',
    to: 'true AS "isLast"',
    tests: ofPostgres,
    named: "were removed a second time",
  },
  {
    breaks: "a member is removed only by a response after it was seen",
    file: "src/load/feeds/segment-members.ts",
    from: '        AND n.known_since <= p."seenAt"\n',
    to: "",
    tests: ofPostgres,
    named: "another job saw them",
  },
  {
    breaks: "a deleted row is deleted in every destination",
    file: "src/load/publication/triggers.ts",
    from: '          create("delete", "DELETE", "REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"),',
    to: "",
    tests: ofPublication,
    named: "deletes rows deleted by any statement",
  },
  {
    breaks: "no batch is claimed before the last one is confirmed",
    file: "src/load/publication/batch.ts",
    from: "WHERE name = ${destination} AND claimed = confirmed\n",
    to: "WHERE name = ${destination}\n",
    tests: ofPublication,
    named: "confirmation was lost",
  },
  {
    breaks: "a publisher confirms its own batch only",
    file: "src/load/publication/batch.ts",
    from: "WHERE name = ${destination} AND claimed_id = ${batch.id}::uuid AND claimed <> confirmed`,",
    to: "WHERE name = ${destination} AND claimed <> confirmed`,",
    tests: ofPublication,
    named: "confirms no batch but its own",
  },
  {
    breaks: "a stale batch is refused",
    file: "src/publish/duckdb/destination.ts",
    from: "if (at !== batch.follows) {",
    to: "if (at === batch.id) {",
    tests: ["test/publish/duckdb.test.ts"],
  },
  {
    breaks: "nothing above the ceiling is unlocked",
    file: "src/jobs/search/unlock.ts",
    from: "if (records <= maxBillable) return;",
    to: "if (records >= 0) return;",
    tests: ofUnlocks,
    named: "above its ceiling",
  },
  {
    breaks: "an unlock compares the larger of estimate and count with its ceiling",
    file: "src/jobs/search/audience-members.ts",
    from: 'Math.max(total, countOf(body["estimated_billable_count"]) ?? 0)',
    to: 'Math.min(total, countOf(body["estimated_billable_count"]) ?? 0)',
    tests: ofUnlocks,
    named: "whose estimate exceeds",
  },
  {
    breaks: "a preview is never unlocked",
    file: "src/jobs/search/audience-members.ts",
    from: 'body["materialization_extent"] !== "full"',
    to: 'body["materialization_extent"] === "none"',
    tests: ofUnlocks,
    named: "of a preview",
  },
  {
    breaks: "an unlock is reserved whole or not at all",
    file: "src/load/ledger/reserve-call.ts",
    from: "CASE WHEN ${call.isWhole === true}::boolean AND",
    to: "CASE WHEN false AND",
    tests: ofUnlocks,
    named: "that a budget doesn't cover",
  },
  {
    breaks: "an unlock without credits releases its reservation",
    file: "src/load/ledger/give-back.ts",
    from: "records_reserved - ${billed ?? 0}::bigint AS records FROM open`);",
    to: "0::bigint AS records FROM open`);",
    tests: ofUnlocks,
    named: "without credits",
  },
  {
    breaks: "a submit that may have been carried out is reported",
    file: "src/jobs/search/audience-search.ts",
    from: "if (reply.mayBeDone || before?.is_pending) {",
    to: "if (before?.is_pending) {",
    tests: ofUnlocks,
    named: "whose submit was lost",
  },
  {
    breaks: "each page of a contact job is reserved if the service bills it",
    file: "src/jobs/search/contact-results.ts",
    from: 'return again.billableCount === billableCount ? "unlock" : "page";',
    to: 'return "unlock";',
    tests: ["test/jobs/search/contact-jobs.test.ts"],
    named: "keeps what it has",
  },
];
