import { z } from "zod";
import { connections, publish } from "./connections.ts";
import { inputs } from "./inputs.ts";
import type { CommonJob, JobDeclaration } from "./jobs.ts";
import { billedBudgets, type budget, budgetsOf, type Prices, pricesOf } from "./prices.ts";
import {
  byName,
  choice,
  setting,
  flag,
  listOf,
  positiveNumber,
  ratio,
  type Schema,
  type Settings,
  setEntries,
  settings,
  text,
  wholeNumber,
  withRule,
} from "./settings.ts";
import { age, duration } from "./times.ts";
import { isLoopback, postgresUrl, schemaName, secret, serviceUrl } from "./values.ts";
import { isLocalHost } from "../../postgres-address.ts";
import { writers } from "../../schemas/ops.ts";
import { extraTypes, personColumnNames } from "../../schemas/extra-columns.ts";
import { enrichEndpoint } from "../../schemas/enrich.ts";
import { lookupEndpoints } from "../../schemas/registry.ts";
import { resolveEndpoint } from "../../schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../schemas/validate-emails.ts";
import { logLevels } from "../../log.ts";
import type { NestedProblem } from "../problems.ts";

/** Default schema of people. */
export const DEFAULT_SCHEMA = "person_data";

/** Default schema of usage, runs and ledger. */
export const DEFAULT_OPS_SCHEMA = "person_data_ops";

/** Default schema of the program's own tables. */
export const DEFAULT_STATE_SCHEMA = "person_data_state";

// docs/configuration.md describes each setting; a test holds both equal.

/** `warehouse`: the Postgres database to fill, the system of record. The three schemas differ, so that privileges can be granted separately. */
const warehouse = settings(
  {
    type: setting(z.literal("postgres"), {
      expects: "postgres: other engines get a published copy",
      hint: "use Postgres as the warehouse and add the other engine under publish: (docs/publishing.md)",
    }).optional(),
    url: postgresUrl({ allowEmbedded: true }),
    allow_insecure: flag().default(false),
    schema: schemaName().default(DEFAULT_SCHEMA),
    ops_schema: schemaName().default(DEFAULT_OPS_SCHEMA),
    state_schema: schemaName().default(DEFAULT_STATE_SCHEMA),
  },
  (given) => {
    const keys = ["schema", "ops_schema", "state_schema"];
    return keys.flatMap((key, at) => {
      const same = keys.slice(0, at).find((other) => given[other] === given[key]);
      const hint =
        "use different names, such as person_data, person_data_ops and person_data_state: each has different readers";
      return same ? [{ path: [key], message: `must differ from warehouse.${same}`, hint }] : [];
    });
  },
);

/** `privacy`: settings for erased people. */
const privacy = settings({
  /** Key of the hashes; by default the warehouse generates one. */
  erasure_key: secret().optional(),
  erasure_notice: age().prefault("30d"),
});

/** `retention`: how long to keep rows, by kind; unlimited by default. */
const retention = settings({
  /** Replaced matches, people and memberships. */
  history: age().optional(),
  /** Runs, calls and coverage. Responses waiting to be loaded refer to their call, so a call must be kept longer. */
  operations: age("30d").optional(),
  /** Resolved rejects. */
  rejects: age().optional(),
});

/** `history`: what is kept besides the present. */
const history = settings({ people: flag().default(true) });

/** `extra_columns`: typed columns for fields that the interface doesn't name. */
const extraColumns = settings({
  person: withRule(byName(choice(extraTypes)), (columns) =>
    Object.keys(columns)
      .filter((name) => personColumnNames.includes(name))
      .map((name) => ({ path: [name], message: "is a column of person already", hint: "remove the line" })),
  ).default({}),
});

/** Names for `alerts.on`: statuses of jobs, and changes in the data. */
const reportable = [
  "failed",
  "limited",
  "interrupted",
  "locked",
  "match_rate",
  "coverage",
  "deaths",
  "job_changes",
  "plan_left",
] as const;

/** `alerts`: webhook for runs that end badly, and for what changed in the data. */
const alerts = settings({
  webhook: secret(),
  on: listOf(choice(reportable), "a list of statuses and changes", 1).default(["failed", "limited"]),
  job_changes_above: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(100),
  format: choice(["auto", "json", "slack"]).default("auto"),
  stale_after: duration().optional(),
});

/** `http`: the pages of `schedule`; those that other machines can reach need a token. */
const http = settings(
  {
    bind: text(
      { expects: "an IP address or host name to listen on" },
      (value) => !/^[A-Za-z0-9.:-]+$/.test(value),
    ).default("127.0.0.1"),
    port: wholeNumber(0, 65_535).default(8080),
    token: secret().optional(),
  },
  ({ bind, token }) => {
    const message = "is missing: http.bind lets other machines read the pages";
    const hint = "${PERSON_ETL_HTTP_TOKEN} or file:PATH; or bind to 127.0.0.1";
    return isLocalHost(String(bind)) || token !== undefined ? [] : [{ path: ["token"], message, hint }];
  },
);

/** `confirm_above`: a job with more due rows than both limits asks first. */
const confirmAbove = settings({
  records: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(10_000),
  ratio: ratio().default(0.2),
});

/** Paths of the service's endpoints (interface section 4), without ids. */
export const endpointPaths = [
  ...lookupEndpoints.map(({ path }) => path),
  "/v2/segments/create",
  "/v2/segments/members",
  "/v2/segments/members/add",
  "/v2/segments/members/remove",
  "/v2/segments/signals/deaths",
  "/person-search/v0/search",
  "/person-search/v0/search-jobs",
  "/person-search/v0/contact-jobs",
  "/person-search/v0/usage",
  "/usage",
];

const rateLimit = settings({ requests_per_second: positiveNumber() });

/** Rate limits by endpoint path; each overrides `requests_per_second`. */
const limits = z
  .strictObject(Object.fromEntries(endpointPaths.map((path) => [path, rateLimit.optional()])))
  .transform((byPath) => Object.fromEntries(setEntries(byPath)));

/** Endpoints whose paths can be replaced, by the type of their jobs. */
const replaceable = {
  resolve: resolveEndpoint,
  validate_emails: validateEmailsEndpoint,
  enrich: enrichEndpoint,
};

/** `service.endpoints`, parsed: other paths by the declared ones. */
const endpoints = z
  .strictObject(
    Object.fromEntries(
      Object.keys(replaceable).map((type) => [
        type,
        text(
          { expects: "a path such as /v2/resolve" },
          (path) => !/^(?:\/[\w.~-]+)+$/u.test(path),
        ).optional(),
      ]),
    ),
  )
  .transform((byType): Readonly<Record<string, string>> => {
    const paths = Object.entries(replaceable).map(([type, { path }]) => [path, byType[type]] as const);
    return Object.fromEntries(paths.flatMap(([path, other]) => (other === undefined ? [] : [[path, other]])));
  });

/** `service`: address, key and rates. One other than the sandbox needs a key and an encrypted connection. */
const service = settings(
  {
    base_url: serviceUrl(),
    api_key: secret().optional(),
    user_api_key: secret().optional(),
    ca: text({ expects: "the path of a PEM file" }).optional(),
    concurrency: wholeNumber(1, 64).default(8),
    requests_per_second: positiveNumber().optional(),
    limits: limits.prefault({}),
    endpoints: endpoints.prefault({}),
    allow_insecure: flag().default(false),
  },
  (given) => {
    const { base_url: baseUrl, api_key: key, allow_insecure: isInsecure } = given;
    const url = typeof baseUrl === "string" ? URL.parse(baseUrl) : null;
    if (!url) return [];
    const found: NestedProblem[] = [];
    if (key === undefined) {
      const hint = "${PERSON_SERVICE_API_KEY} or file:PATH; only the sandbox needs no key";
      found.push({ path: ["api_key"], message: "is missing", hint });
    }
    if (url.protocol === "http:" && !isLoopback(url) && isInsecure !== true) {
      const message = "would send the key and people's data over the network unencrypted";
      const hint = "use https://, or set service.allow_insecure: true";
      found.push({ path: ["base_url"], message, hint });
    }
    return found;
  },
);

/** `sandbox`: population of `base_url: sandbox`. */
const sandbox = settings({
  seed: wholeNumber(0, 2 ** 32 - 1).default(1),
  people: wholeNumber(1, 100_000_000).default(100_000),
});

/** Sections that don't depend on the job types. */
const sections = {
  log_level: choice(logLevels).default("info"),
  service,
  sandbox: sandbox.prefault({}),
  warehouse,
  publish: publish.default({}),
  data_dir: text({ expects: "a folder" }).default(".person-etl"),
  confirm_above: confirmAbove.prefault({}),
  /** Maximum rejected records / tried records of a job, 0 to 1; by default 0.05 is reported for 1,000 records and more. */
  max_reject_ratio: ratio().optional(),
  connections: connections.default({}),
  inputs: inputs.default({}),
  privacy: privacy.prefault({}),
  retention: retention.prefault({}),
  history: history.prefault({}),
  extra_columns: extraColumns.prefault({}),
  alerts: alerts.optional(),
  http: http.prefault({}),
};

/** Parsed content of a valid file. */
export type ConfigDocument = Settings<typeof sections> & {
  /** By job type; also `unlock`. */
  readonly budgets: Readonly<Record<string, z.output<typeof budget>>>;
  readonly prices: Prices | null;
  readonly jobs: Readonly<Record<string, CommonJob>>;
};

/** There is a job, and none has the name of a command that records its runs. */
function jobsRule(jobs: Readonly<Record<string, unknown>>): readonly NestedProblem[] {
  if (Object.keys(jobs).length === 0) {
    const hint = "see config.example.yaml, or create one with `person-etl init`";
    return [{ path: [], message: "has no job", hint }];
  }
  const hint = "a command of this name records its runs under it; choose another name";
  return writers
    .filter((name) => Object.hasOwn(jobs, name))
    .map((name) => ({ path: [name], message: "is a reserved name", hint }));
}

type DocumentSchema = Schema & z.ZodType<ConfigDocument>;

/** Builds the schema of the whole file; `rules.ts` and `references.ts` check relations between its parts. */
export function documentSchemaOf(jobTypes: readonly JobDeclaration[]): DocumentSchema {
  const [first, ...options] = jobTypes.map((type) => type.settings);
  if (!first) throw new Error("there is no job type");
  const billed = billedBudgets(jobTypes);
  const schema = settings({
    ...sections,
    budgets: budgetsOf(billed).prefault({}),
    prices: pricesOf(billed).optional(),
    jobs: withRule(byName(z.discriminatedUnion("type", [first, ...options])), jobsRule),
  });
  return schema as DocumentSchema;
}
