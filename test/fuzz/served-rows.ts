import type { TableContents } from "../support/comparable-tables.ts";
import type { Served } from "./fuzzed-service.ts";

/** Input rows of each record of a night, by job and record id (or address). */
export type RowKeys = ReadonlyMap<string, readonly string[]>;

/** Jobs of the nights, by path, with the table of their answers. */
const JOBS: Readonly<Record<string, { readonly job: string; readonly table: string }>> = {
  "/v1/resolve": { job: "resolve_customers", table: "resolution" },
  "/v2/validate_emails": { job: "validate_customers", table: "email_validation" },
  "/v2/enrich": { job: "enrich_customers", table: "enrichment" },
};

/** Runs jobs separately, so that one job's answers don't change another's requests. */
export const JOBS_TEXT = `
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers, refresh_after: 30d }
  enrich_customers: { type: enrich, input: customers, refresh_after: 90d, refresh_unmatched_after: 30d }`;

interface ServedRow {
  readonly path: string;
  readonly table: string;
  /** Job and key, like the keys of most tables. */
  readonly row: string;
  readonly sourceKey: string;
}

/** Input rows of served records, given as `/path id`. */
function rowsOf(served: Iterable<string>, rowKeys: RowKeys): ServedRow[] {
  return [...served].flatMap((text) => {
    const at = text.indexOf(" ");
    const path = text.slice(0, at);
    const { job, table } = JOBS[path] ?? { job: "", table: "" };
    const keys = rowKeys.get(`${job} ${text.slice(at + 1)}`) ?? [];
    return keys.map((sourceKey) => ({ path, table, row: `${job} ${sourceKey}`, sourceKey }));
  });
}

/** Rows (by job and key, and by key alone) and PIDs with a wrong stored age. */
export function agedKeys(served: Served, rowKeys: RowKeys): readonly string[] {
  const pids = [...served.shifted].filter((shifted) => !shifted.startsWith("/"));
  return [...pids, ...rowsOf(served.shifted, rowKeys).flatMap(({ row, sourceKey }) => [row, sourceKey])];
}

/** PID in the row of an answer. */
function pidIn(row: string | undefined): string | null {
  return /"(p-[^"]+)"/u.exec(row ?? "")?.[1] ?? null;
}

/** The part of the tables that depends only on a night's sound answers. */
export function decidedBy(
  contents: TableContents,
  undisturbed: TableContents,
  served: Served,
  options: { readonly rowKeys: RowKeys; readonly aged: ReadonlySet<string> },
): TableContents {
  const rows = rowsOf(served.sound, options.rowKeys).filter(({ row }) => !options.aged.has(row));
  const keysByTable = new Map<string, Set<string>>();
  for (const { table, row, sourceKey } of rows) {
    const keys = keysByTable.get(table) ?? new Set();
    keysByTable.set(table, keys.add(table === "email_validation" ? sourceKey : row));
  }
  const enriched = rows.filter(({ table }) => table === "enrichment");
  const pids = enriched
    .map(({ row }) => pidIn(undisturbed.get("enrichment")?.get(row)))
    .filter((pid) => pid !== null && !served.oddPids.has(pid) && !options.aged.has(pid));
  const people = new Set(pids);
  return new Map(
    [...contents].map(([table, all]) => {
      const isPerson = table.startsWith("person") && table !== "person_pid_alias";
      const keys: ReadonlySet<string | null> = keysByTable.get(table) ?? (isPerson ? people : new Set());
      return [table, new Map([...all].filter(([key]) => keys.has(key)))];
    }),
  );
}
