import { tables } from "../schemas/registry.ts";
import { type Path, type Problems, textOf } from "./problems.ts";
import { entriesOf, isEnabled, type Written } from "./references.ts";
import { budgetNames, DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "./schema/document.ts";
import { listFields, scalarFields } from "./schema/inputs.ts";
import type { WrittenJob } from "./schema/jobs.ts";
import { mappingAt, valueAt, isMapping } from "./schema/settings.ts";
import { isLoopback } from "./schema/values.ts";

/** Checks what involves several settings. Its messages are more specific than the schema's, and so come first. */
export function checkRules(file: Written, problems: Problems): void {
  for (const check of [
    checkService,
    checkWarehouse,
    checkHttp,
    checkPublish,
    checkPrices,
    checkInputs,
    checkBudgets,
    checkJobs,
  ]) {
    check(file, problems);
  }
}

/** Checks that the service has a key and an encrypted connection. */
function checkService({ tree }: Written, problems: Problems): void {
  const { base_url: baseUrl, api_key: apiKey, allow_insecure: isInsecure } = mappingAt(tree, "service");
  if (typeof baseUrl !== "string" || baseUrl === "" || baseUrl === "sandbox") return;
  if (apiKey === undefined) {
    const hint = "${PERSON_SERVICE_API_KEY} or file:PATH; only the sandbox needs no key";
    problems.add(["service", "api_key"], "is missing", hint);
  }
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  if (url?.protocol === "http:" && !isLoopback(url) && isInsecure !== true) {
    const message = "would send the key and people's data over the network unencrypted";
    problems.add(["service", "base_url"], message, "use https://, or set service.allow_insecure: true");
  }
}

/** Checks that the three schemas differ, so that privileges can be granted separately. */
function checkWarehouse({ tree }: Written, problems: Problems): void {
  const warehouse = mappingAt(tree, "warehouse");
  const named = (key: string, byDefault: string) => {
    const name = warehouse[key];
    return { key, name: typeof name === "string" ? name : byDefault };
  };
  const schemas = [
    named("schema", DEFAULT_SCHEMA),
    named("ops_schema", DEFAULT_OPS_SCHEMA),
    named("state_schema", DEFAULT_STATE_SCHEMA),
  ];
  for (const [at, { key, name }] of schemas.entries()) {
    const same = schemas.slice(0, at).find((other) => other.name === name);
    if (!same) continue;
    problems.add(
      ["warehouse", key],
      `must differ from warehouse.${same.key}`,
      "use different names, such as person_data, person_data_ops and person_data_state: each has other readers",
    );
  }
}

const PUBLISH_FORM =
  "use Postgres as the warehouse and add the other engine under publish: (docs/publishing.md)";

/** Rejects a warehouse other than Postgres. Returns the tree without its settings, to avoid more complaints about them. */
export function refuseOtherWarehouses(tree: object, problems: Problems): object {
  const type = valueAt(tree, ["warehouse", "type"]);
  if (typeof type !== "string" || type === "postgres") return tree;
  const message = "must be postgres: other engines get a published copy";
  problems.add(["warehouse", "type"], message, PUBLISH_FORM);
  return { ...tree, warehouse: { url: "embedded" } };
}

/** Checks that pages reachable from other machines have a token. */
function checkHttp({ tree }: Written, problems: Problems): void {
  const { bind, token } = mappingAt(tree, "http");
  if (typeof bind !== "string" || token !== undefined) return;
  const host = bind.includes(":") ? `[${bind}]` : bind;
  if (URL.canParse(`http://${host}/`) && isLoopback(new URL(`http://${host}/`))) return;
  problems.add(
    ["http", "token"],
    "is missing: http.bind lets other machines read the pages",
    "${PERSON_ETL_HTTP_TOKEN} or file:PATH; or bind to 127.0.0.1",
  );
}

/** Checks that child tables are listed with their root, and that destinations differ. */
function checkPublish({ tree }: Written, problems: Problems): void {
  const targets = new Map<string, string>();
  for (const [name, { tables: listed, path, project, dataset }] of entriesOf(tree, "publish")) {
    const names: readonly unknown[] = Array.isArray(listed) ? listed : [];
    for (const [at, table] of names.entries()) {
      const parent = tables.find((declared) => declared.name === table)?.parent ?? null;
      if (parent === null || names.includes(parent)) continue;
      const message = `requires ${parent}, which isn't listed`;
      problems.add(["publish", name, "tables", at], message, `add ${parent}`);
    }
    const dots = [project ?? "", dataset ?? "person_data"].map(String).join(".");
    const target = typeof path === "string" ? path : dots;
    const other = targets.get(target);
    if (other !== undefined) {
      problems.add(
        ["publish", name],
        `has the same target as ${other}`,
        "each destination needs its own target",
      );
    }
    targets.set(target, name);
  }
}

/** Checks that every budget given as an amount of money has a price. */
function checkPrices({ tree, jobTypes }: Written, problems: Problems): void {
  const known = budgetNames(jobTypes);
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

/** Settings that only the members of an audience have by default. */
const REQUIRED = {
  key: "the name of a column, or a list of at least one",
  fields: "a mapping of keys to values",
};

/** Checks that an input has either a table, a query or a search, and what else each requires. */
function checkInputs({ tree }: Written, problems: Problems): void {
  for (const [name, input] of entriesOf(tree, "inputs")) {
    const path = ["inputs", name];
    if (input["job"] !== undefined || input["search"] !== undefined) {
      if (input["job"] === undefined) {
        problems.add([...path, "job"], "is missing", "add the audience_search job that has this search");
      }
      for (const setting of ["table", "sql", "connection", "key", "fields"]) {
        if (input[setting] === undefined) continue;
        const hint = "the members of an audience are read by their PID; remove the line";
        problems.add([...path, setting], "conflicts with job", hint);
      }
      continue;
    }
    for (const [setting, expects] of Object.entries(REQUIRED)) {
      if (input[setting] === undefined)
        problems.add([...path, setting], "is missing", `it must be ${expects}`);
    }
    if (input["table"] === undefined && input["sql"] === undefined) {
      const hint = "add a table (schema.table), sql: SELECT …, or the job and search of an audience";
      problems.add([...path, "table"], "is missing", hint);
    }
    if (input["table"] !== undefined && input["sql"] !== undefined) {
      problems.add([...path, "sql"], "conflicts with table", "keep only one");
    }
    const fields = isMapping(input["fields"]) ? input["fields"] : null;
    if (fields && Object.keys(fields).length === 0) {
      const hint = "for example { first_name: first_name, last_name: last_name, emails: [email] }";
      problems.add([...path, "fields"], "maps no column", hint);
    }
    if (fields && Object.hasOwn(fields, "record_id")) {
      const hint = "record_id is generated from the key; remove this line";
      problems.add([...path, "fields", "record_id"], "can't be mapped", hint);
    }
  }
}

/** Warns of a column mapped to two fields of an input. */
export function warnOfSharedColumns({ tree }: Written, warnings: Problems): void {
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

/** Checks that budgets are set by job type, not by job. */
function checkBudgets({ tree }: Written, problems: Problems): void {
  const jobs = mappingAt(tree, "jobs");
  for (const name of Object.keys(mappingAt(tree, "budgets")).filter((budget) =>
    Object.hasOwn(jobs, budget),
  )) {
    const type = valueAt(jobs, [name, "type"]);
    if (type === name) continue;
    const hint = typeof type === "string" ? `write ${type}` : "write the type of the job";
    problems.add(["budgets", name], "is a job: budgets apply to all jobs of a type", hint);
  }
}

/** Checks the rules of the job types, and that there is a job. */
function checkJobs({ tree, jobTypes }: Written, problems: Problems): void {
  if (Object.keys(mappingAt(tree, "jobs")).length === 0 && !problems.hasBelow(["jobs"])) {
    const hint = "see config.example.yaml, or create one with `person-etl init`";
    problems.add(["jobs"], "has no job", hint);
  }
  for (const { type, complaints } of jobTypes) {
    const earlier = new Map<string, WrittenJob>();
    for (const [name, job] of entriesOf(tree, "jobs")) {
      if (job["type"] !== type || !complaints) continue;
      const inputFields = fieldsOf(tree, String(job["input"]), problems);
      for (const { path, message, hint } of complaints(job, { inputFields, earlier })) {
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
  { path: "spool", instead: "a job stops sending while 1 GB of received answers waits to be loaded" },
  {
    path: "scheduler",
    instead: "a missed run is made up once, within 24 hours; starts are no longer spread out",
  },
  { path: "alerts.budget_ratio", instead: "an alert is sent when 90 % of a budget is used" },
  { path: "jobs.*.full_sweep_every", instead: "a segment is read completely at least every 7 days" },
  {
    path: "jobs.*.max_reject_ratio",
    type: "segment_push",
    instead: "a push doesn't fail because of rejected rows; `status` reports many of them",
  },
];

/** Returns the file without keys that no longer have an effect. Warns once per reason, at its first key. */
export function dropKeys(tree: object, warnings: Problems): object {
  const dropped = new Map<string, Path[]>();
  const kept = without(tree, [], (path) => {
    const instead = insteadOf(path, tree);
    if (instead !== null) dropped.set(instead, [...(dropped.get(instead) ?? []), path]);
    return instead !== null;
  });
  for (const [instead, [first = [], ...others]] of dropped) {
    const also = others.length === 0 ? "" : ` and ${others.map(textOf).join(", ")}`;
    warnings.add(first, `no longer has an effect: ${instead}`, `remove it${also}`);
  }
  return Object(kept);
}

function insteadOf(path: Path, tree: object): string | null {
  const found = DROPPED.find(({ path: dropped, type }) => {
    const steps = dropped.split(".");
    const isThere =
      steps.length === path.length && steps.every((step, i) => step === "*" || step === path[i]);
    return isThere && (type === undefined || valueAt(tree, [...path.slice(0, -1), "type"]) === type);
  });
  return found?.instead ?? null;
}

/** The value without the keys at dropped paths, at any depth. */
function without(value: unknown, path: Path, isDropped: (path: Path) => boolean): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, item]) => {
      const at = [...path, key];
      return isDropped(at) ? [] : [[key, without(item, at, isDropped)]];
    }),
  );
}
