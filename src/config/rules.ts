import { foundText, type Path, type Problems, textOf } from "./problems.ts";
import { entriesOf, isEnabled, type Written } from "./references.ts";
import { billedBudgets } from "./schema/prices.ts";
import { daysOf } from "./schema/times.ts";
import { listFields, scalarFields } from "./schema/inputs.ts";
import { isFileName, parseTableName } from "./schema/values.ts";
import type { WrittenJob } from "./schema/jobs.ts";
import { enrichFields } from "../schemas/enrich.ts";
import { personFields, personLists } from "../schemas/person.ts";
import { suggest } from "../suggest.ts";
import { isMapping, mappingAt, valueAt } from "./schema/settings.ts";

/** Checks relations between parts of the file. */
export function checkRules(written: Written, problems: Problems): void {
  for (const check of [checkJobs, checkFiles, checkPrices, checkAlerts]) check(written, problems);
}

/** Warns of settings that are allowed, but probably mistakes. */
export function warnOfMistakes(written: Written, warnings: Problems): void {
  warnOfSharedColumns(written, warnings);
  warnOfReturnFields(written, warnings);
}

/** Checks that every budget given as an amount of money has a price. */
function checkPrices({ tree, jobTypes }: Written, problems: Problems): void {
  const known = billedBudgets(jobTypes);
  const prices = mappingAt(tree, "prices");
  for (const [name, limits] of entriesOf(tree, "budgets").filter(([budget]) => known.includes(budget))) {
    for (const [period, limit] of Object.entries(limits)) {
      const isAmount = typeof limit === "object" && limit !== null && "amount" in limit;
      if (!isAmount || Object.hasOwn(prices, name)) continue;
      const hint = isMapping(valueAt(tree, ["prices"]))
        ? `add ${name}: 0.10 to \`prices\``
        : `add prices: { currency: USD, ${name}: 0.10 }`;
      problems.add(
        ["budgets", name, period, "amount"],
        `needs prices.${name}, the price of one billed record`,
        `${hint}, or write the number of records`,
      );
    }
  }
}

/** Checks that the history that an alert reads is kept. */
function checkAlerts({ tree }: Written, problems: Problems): void {
  const on = valueAt(tree, ["alerts", "on"]);
  if (!Array.isArray(on) || !on.includes("job_changes")) return;
  if (valueAt(tree, ["history", "people"]) !== false) return;
  problems.add(["alerts", "on"], "has job_changes, which needs history.people", "remove one of the two");
}

/** Warns of a column mapped to two fields of an input. */
function warnOfSharedColumns({ tree }: Written, warnings: Problems): void {
  for (const [name, input] of entriesOf(tree, "inputs")) {
    const mappedBy = new Map<string, string>();
    for (const [field, columns] of Object.entries(mappingAt(input, "fields"))) {
      for (const column of [columns].flat().filter((one) => typeof one === "string")) {
        const other = mappedBy.get(column) ?? field;
        if (other !== field) {
          const path = ["inputs", name, "fields", field];
          warnings.add(path, `has the same column as ${other}`, "map each column to one field");
        }
        mappedBy.set(column, other);
      }
    }
  }
}

/** Warns of requested fields that are neither documented nor declared; the service may have them. */
function warnOfReturnFields({ tree, source }: Written, warnings: Problems): void {
  const declared = mappingAt(tree, "extra_columns", "person");
  const known = Object.keys({ ...personFields, ...personLists, ...enrichFields, ...declared });
  for (const [name, { return_fields: asked }] of entriesOf(tree, "jobs")) {
    for (const [i, field] of (Array.isArray(asked) ? asked.map(String) : []).entries()) {
      if (known.includes(field)) continue;
      const path = ["jobs", name, "return_fields", i];
      const meant = suggest(field, known);
      warnings.add(
        path,
        `is not a field that the service documents${foundText(valueAt(source, path))}`,
        meant === null
          ? "remove it unless the service names it; then declare it under extra_columns.person"
          : `did you mean ${meant}?`,
      );
    }
  }
}

/** Checks that inputs name files where, and only where, their connection reads files. */
function checkFiles({ tree, source }: Written, problems: Problems): void {
  for (const [name, input] of entriesOf(tree, "inputs")) {
    const { table, connection } = input;
    const at = ["inputs", name, "table"];
    if (typeof table !== "string" || problems.has(at)) continue;
    const { type, path } = mappingAt(tree, "connections", String(connection));
    const readsFiles = type === "duckdb" && path === undefined;
    if (readsFiles && !isFileName(table)) {
      const hint =
        "write the path of a file that ends with .csv, .tsv, .txt, .parquet, .json, .jsonl or .ndjson, also with .gz; or add `path:` to the connection";
      problems.add(at, `is not a file that can be read${foundText(valueAt(source, at))}`, hint);
    } else if (!readsFiles && parseTableName(table) === null) {
      const hint = "add connections: { files: { type: duckdb } }, and connection: files to the input";
      problems.add(at, "names files, which only a connection of type duckdb reads", hint);
    }
  }
}

function checkJobs({ tree, jobTypes }: Written, problems: Problems): void {
  for (const { type, findProblems = () => [] } of jobTypes) {
    const earlier = new Map<string, WrittenJob>();
    for (const [name, job] of entriesOf(tree, "jobs").filter(([, { type: own }]) => own === type)) {
      const inputFields = fieldsOf(tree, String(job["input"]), problems);
      for (const { path, message, hint } of findProblems(job, { inputFields, earlier })) {
        problems.add(["jobs", name, ...path], message, hint);
      }
      if (isEnabled(job)) earlier.set(name, job);
    }
  }
}

const FIELDS: readonly string[] = [...scalarFields, ...listFields];

/** Fields mapped by an input; null if unknown, also because one of them has a problem of its own. */
function fieldsOf(tree: object, input: string, problems: Problems): readonly string[] | null {
  const path = ["inputs", input, "fields"];
  if (valueAt(tree, path) === undefined || problems.hasBelow(path)) return null;
  const names = Object.keys(mappingAt(tree, ...path));
  return names.every((name) => FIELDS.includes(name)) ? names : null;
}

const FINGERPRINTS = "every run compares a fingerprint of each row, so no cursor is needed";

/** Keys that earlier versions took, with what happens instead; `*` stands for any name, `type` limits a job's key. */
const DROPPED: readonly { readonly path: string; readonly type?: string; readonly instead: string }[] = [
  { path: "inputs.*.cursor", instead: FINGERPRINTS },
  { path: "inputs.*.cursor_overlap", instead: FINGERPRINTS },
  { path: "warehouse.retry_for", instead: "a run waits up to 5 minutes for an unreachable warehouse" },
  { path: "sandbox.input_rows", instead: "sample tables have 5,000 rows" },
  { path: "spool", instead: "a job stops sending while 1 GB of received responses waits to be loaded" },
  {
    path: "scheduler",
    instead: "a missed run is started once, within 24 hours; start times are no longer spread",
  },
  { path: "alerts.budget_ratio", instead: "an alert is sent when 90% of a budget is used" },
  { path: "jobs.*.full_sweep_every", instead: "a segment is read completely at least every 7 days" },
  {
    path: "jobs.*.max_reject_ratio",
    instead: "`max_reject_ratio` is set once, at the top level, for all jobs",
  },
  {
    path: "jobs.*.refresh_unmatched_after",
    type: "validate_emails",
    instead: "`refresh_after` applies to every validated address",
  },
  ...["schedule_slot", "budget_use"].map((table) => ({
    path: `retention.${table}`,
    instead: "schedule_slot is kept for 90 days, and budget_use for 400",
  })),
];

/** Returns the file without keys that no longer have an effect. Warns once per reason, at its first key. */
export function dropKeys(tree: object, warnings: Problems, problems: Problems): object {
  const dropped = new Map<string, Path[]>();
  const visit = (value: unknown, path: Path): unknown => {
    if (!isMapping(value)) return value;
    const kept = Object.keys(value).filter((key) => {
      const found = DROPPED.find((rule) => matches(rule, [...path, key], value["type"]));
      if (found) dropped.set(found.instead, [...(dropped.get(found.instead) ?? []), [...path, key]]);
      return !found;
    });
    return Object.fromEntries(kept.map((key) => [key, visit(value[key], [...path, key])]));
  };
  const kept = visit(carryRetention(tree, warnings, problems), []);
  for (const [instead, [first = [], ...others]] of dropped) {
    const also = others.length === 0 ? "" : ` and ${others.map(textOf).join(", ")}`;
    warnings.add(first, `no longer has an effect: ${instead}`, `remove it${also}`);
  }
  return Object(kept);
}

function matches({ path, type }: (typeof DROPPED)[number], at: Path, ownType: unknown): boolean {
  const steps = path.split(".");
  const isThere = steps.length === at.length && steps.every((step, i) => step === "*" || step === at[i]);
  return isThere && (type === undefined || type === ownType);
}

/** A setting of `retention`: the keys by table that it replaces, and its least value in days. */
interface Group {
  readonly replaced: readonly string[];
  readonly leastDays: number;
}

const GROUPS: Readonly<Record<string, Group>> = {
  history: { replaced: ["match_history", "person_history", "segment_membership_history"], leastDays: 1 },
  operations: {
    replaced: ["sync_run", "api_call", "input_coverage", "segment_sync", "person_search_quota"],
    leastDays: 30,
  },
  rejects: { replaced: ["reject"], leastDays: 1 },
};

/**
 * Replaces limits by table, which earlier versions took, by the limit of their group, so that nothing is kept longer than the
 * longest of them. Returns the file without them, and warns once per group.
 */
function carryRetention(tree: object, warnings: Problems, problems: Problems): object {
  const retention: Record<string, unknown> = { ...mappingAt(tree, "retention") };
  const names = Object.values(GROUPS).flatMap(({ replaced }) => replaced);
  if (!names.some((name) => Object.hasOwn(retention, name))) return tree;
  for (const [group, { replaced, leastDays }] of Object.entries(GROUPS)) {
    const written = replaced.filter((name) => Object.hasOwn(retention, name));
    const values = written.map((name) => retention[name]).filter((value) => value !== null);
    for (const name of written) Reflect.deleteProperty(retention, name);
    const paths = written.map((name): Path => ["retention", name]);
    const [first] = paths;
    if (first === undefined) continue;
    const setting = `retention.${group}`;
    const all = paths.map(textOf).join(", ");
    if ((retention[group] ?? null) !== null || values.length === 0) {
      warnings.add(first, `no longer has an effect: ${setting} applies`, `remove ${all}`);
      continue;
    }
    const carried = longest(values, leastDays);
    if (carried === null) {
      problems.add(
        first,
        `was replaced by ${setting}, and can't be converted`,
        `write ${setting} instead of ${all}`,
      );
      continue;
    }
    retention[group] = carried;
    const shown = /^\d+d$/.test(carried) ? `: ${carried}` : "";
    const message = `was replaced by ${setting}, which now has the longest of the old values${shown}`;
    warnings.add(first, message, `write ${setting}${shown} instead of ${all}`);
  }
  return { ...tree, retention };
}

/** Longest of the values; null if they can't be compared. A single value with a variable stays as written. */
function longest(values: readonly unknown[], leastDays: number): string | null {
  const days = values.map((value) => (typeof value === "string" ? daysOf(value) : null));
  if (days.every((one) => one !== null)) return `${Math.max(leastDays, ...days)}d`;
  const [first] = values;
  const isSame = values.every((value) => value === first);
  return isSame && typeof first === "string" && first.includes("${") ? first : null;
}
