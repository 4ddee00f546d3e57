/** One change of a line that a test has to notice. */
export interface Mutant {
  /** The promise that the change breaks. */
  readonly breaks: string;
  readonly file: string;
  /** Occurs once in the file. */
  readonly from: string;
  readonly to: string;
  /** Test files, and `-t` with a name. */
  readonly tests: readonly string[];
  /** Configuration of the suite; absent for that of `npm test`. */
  readonly config?: string;
}

/** Changes that would cost money or data, one per promise. */
export const mutants: readonly Mutant[] = [
  {
    breaks: "a runner that lost its lock can't commit",
    file: "src/load/runs/fence.ts",
    from: "WHERE ${isHeldBy(run)} FOR KEY SHARE",
    to: "WHERE ${isHeldBy(run)}",
    tests: ["test/load/postgres-lock.test.ts"],
  },
  {
    breaks: "a released lock is no lock",
    file: "src/load/runs/fence.ts",
    from: "AND epoch = ${epoch} AND released_at IS NULL",
    to: "AND epoch = ${epoch}",
    tests: ["test/load/postgres.test.ts", "-t", "lock"],
  },
  {
    breaks: "budgets are reserved by one process at a time",
    file: "src/load/ledger/reserve-call.ts",
    from: "      FOR UPDATE OF u),",
    to: "      ),",
    tests: ["test/load/postgres-budgets.test.ts"],
  },
  {
    breaks: "a budget is never exceeded",
    file: "src/load/ledger/reserve-call.ts",
    from: "least(${wanted}::bigint, min(rest))",
    to: "least(${wanted}::bigint, min(rest) + 1)",
    tests: ["test/load/postgres-budgets.test.ts"],
  },
  {
    breaks: "only calls that cost nothing are released",
    file: "src/load/ledger/give-back.ts",
    from: "return !possiblyBilled && recordsMatched === null;",
    to: "return recordsMatched === null;",
    tests: ["test/load/postgres.test.ts", "-t", "budget"],
  },
];
