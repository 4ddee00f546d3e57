import { dirname, join } from "node:path";
import {
  type Draft,
  isComplete,
  type InitFlags,
  nameIn,
  type OpenedSource,
  type Question,
  type Reading,
  withAnswers,
} from "./ask.ts";
import { isNotCreatedYet, refuseForeignFolder } from "../app.ts";
import type { Context } from "../command.ts";
import { failureOf } from "../failure.ts";
import type { Config } from "../../config/config.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "../../config/schema/document.ts";
import { problemOfPostgresUrl } from "../../config/schema/values.ts";
import type { PostgresTarget } from "../../load/db/connect.ts";
import { openEmbedded } from "../../load/embedded/open.ts";
import { openInputDatabase } from "../../load/open.ts";
import type { DuckDbConnection } from "../../load/inputs/input.ts";
import { openBrowser } from "../../load/inputs/postgres-profile.ts";
import { readPostgresAddress } from "../../postgres-address.ts";

const GO_ON = "Enter: go on without reading tables";

/** Draft with an opened database, or the reason why it can't be read, which an empty reply accepts. */
async function withSource(
  context: Context,
  draft: Draft,
  open: () => Promise<OpenedSource | null>,
): Promise<Reading> {
  try {
    return { draft: { ...draft, source: await open() } };
  } catch (error) {
    context.stop.signal.throwIfAborted();
    const { message, problems } = failureOf(error, "listing the tables");
    const hint = problems[0]?.hint;
    // The rest of the message is about runs.
    const [sentence = message] = /^.*?[.](?= |$)/su.exec(message) ?? [];
    const refused = hint === undefined ? sentence : `${sentence}\n  → ${hint}`;
    return { refused, otherwise: { draft, text: GO_ON } };
  }
}

/** Opens the embedded database and lists its tables except those in `ownSchemas`; null if it doesn't exist yet. */
async function openEmbeddedSource(
  context: Context,
  dataDir: string,
  ownSchemas: readonly string[],
): Promise<OpenedSource | null> {
  if (await isNotCreatedYet("embedded", dataDir)) return null;
  await refuseForeignFolder(dataDir);
  context.notify("Starting the embedded database …");
  const server = await openEmbedded({ dataDir, log: context.log, signal: context.stop.signal });
  context.scope.deferProgram("embedded database", () => server.close());
  return await openPostgresSource(context, { url: server.connectionString }, ownSchemas);
}

/** Opens a Postgres database and lists its tables except those in `ownSchemas`. */
async function openPostgresSource(
  context: Context,
  target: PostgresTarget,
  ownSchemas: readonly string[],
): Promise<OpenedSource> {
  const { host, port, database, password } = readPostgresAddress(target.url);
  context.scrubber.hide(password);
  const name = `Postgres at ${host}:${port}${database === null ? "" : `/${database}`}`;
  const browser = openBrowser(target, { name, path: "the address" });
  context.scope.defer("database", () => browser.close());
  return { name, browser, tables: await browser.listTables(ownSchemas) };
}

const OWN_SCHEMAS = [DEFAULT_SCHEMA, DEFAULT_OPS_SCHEMA, DEFAULT_STATE_SCHEMA];

/** Variables proposed for the warehouse's address, if set. */
const USUAL_NAMES = ["WAREHOUSE_URL", "DATABASE_URL"];

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Removes the decoration of `$NAME` and `${NAME}`. */
const bareName = (reply: string) => reply.replace(/^\$\{?(\w+)\}?$/, "$1");

export const serviceQuestion: Question = {
  text: () => "Service: https:// address, or `sandbox` to try it without a key",
  proposal: ({ answers }) => answers.baseUrl,
  given: (flags) => flags.baseUrl,
  owns: ({ path }) => path === "service.base_url",
  read: (baseUrl, draft) => {
    const apiKey = baseUrl === "sandbox" ? null : "${PERSON_SERVICE_API_KEY}";
    return { draft: withAnswers(draft, { baseUrl, apiKey }) };
  },
};

export const keyQuestion: Question = {
  text: ({ answers }) => (answers.apiKey === null ? null : "Environment variable with the API key"),
  proposal: ({ answers }) => nameIn(answers.apiKey ?? ""),
  given: (flags) => flags.apiKeyEnv,
  owns: ({ path }) => path === "service.api_key",
  read: (reply, draft) =>
    VARIABLE.test(bareName(reply))
      ? { draft: withAnswers(draft, { apiKey: `\${${bareName(reply)}}` }) }
      : {
          refused:
            "The file only names the variable that holds the key, in letters, digits and _. Revoke a key that you typed here.",
        },
};

/** Asks for the warehouse, opens it and lists its tables. */
export function warehouseQuestion(context: Context, dataDir: string, flags: InitFlags): Question {
  const set = USUAL_NAMES.find((name) => context.env[name]?.trim());
  const source = async (draft: Draft, open: () => Promise<OpenedSource | null>): Promise<Reading> =>
    isComplete(flags) ? { draft } : await withSource(context, draft, open);

  async function readAddress(name: string, address: string, before: Draft): Promise<Reading> {
    const problem = problemOfPostgresUrl(address);
    if (problem) return { refused: `${name} ${problem.message}.\n  → ${problem.hint}` };
    const { isLocal, tls } = readPostgresAddress(address);
    const allowInsecure = !isLocal && tls !== null && tls !== "verify";
    const draft = withAnswers(before, { warehouseUrl: `\${${name}}`, allowInsecure });
    const target = { url: address, allowInsecure };
    const reading = await source(draft, () => openPostgresSource(context, target, OWN_SCHEMAS));
    if (!allowInsecure || !("draft" in reading)) return reading;
    return {
      refused: `${name} turns off verified TLS, so others on the network could read people's data.`,
      otherwise: {
        draft: reading.draft,
        text: "Enter: allow it, in a private network",
        needsConfirmation: true,
      },
    };
  }

  return {
    text: () => "Warehouse: `embedded`, or the variable with your Postgres URL",
    proposal: ({ answers }) =>
      answers.warehouseUrl === "" ? (set ?? "embedded") : nameIn(answers.warehouseUrl),
    given: (given) => given.warehouseUrlEnv,
    owns: ({ path }) => path.startsWith("warehouse."),
    async read(reply, before) {
      const draft = { ...before, source: null };
      if (reply === "embedded") {
        const next = withAnswers(draft, { warehouseUrl: "embedded", allowInsecure: false });
        return await source(next, () => openEmbeddedSource(context, dataDir, OWN_SCHEMAS));
      }
      if (/^postgres(?:ql)?:/u.test(reply)) {
        context.scrubber.hide(reply);
        const typed = { ...draft.typed, WAREHOUSE_URL: reply };
        return await readAddress("WAREHOUSE_URL", reply, { ...draft, typed });
      }
      const name = bareName(reply);
      if (!VARIABLE.test(name))
        return { refused: "Type `embedded`, or the name of an environment variable." };
      const value = (draft.typed[name] ?? context.env[name])?.trim();
      if (value) return await readAddress(name, value, draft);
      const next = withAnswers(draft, { warehouseUrl: `\${${name}}`, allowInsecure: false });
      if (isComplete(flags)) return { draft: next };
      const refused = `${name} isn't set here, so the tables can't be read.`;
      return { refused, otherwise: { draft: next, text: GO_ON } };
    },
  };
}

/** Asks for the database of the rows if there are connections; opens it and lists its tables. */
export function databaseQuestion(context: Context, config: Config, flags: InitFlags): Question {
  const names = Object.keys(config.connections);
  return {
    text: () => `Database of the rows: \`warehouse\`, or a connection (${names.join(", ")})`,
    proposal: ({ answers }) => answers.connection ?? "warehouse",
    given: ({ connection }) => connection ?? (names.length === 0 ? "warehouse" : undefined),
    owns: ({ path }, { answers }) => path === `inputs.${answers.input}.connection`,
    async read(reply, before) {
      const connection = reply === "warehouse" ? null : reply;
      if (connection !== null && !names.includes(connection)) {
        const known = ["warehouse", ...names].join(", ");
        return { refused: `${reply} is not a configured connection. Known: ${known}.` };
      }
      const draft = { ...withAnswers(before, { connection }), source: null };
      if (isComplete(flags)) return { draft };
      if (connection !== null && config.connections[connection]?.type !== "postgres") {
        const refused = "The tables of BigQuery can't be listed.";
        return { refused, otherwise: { draft, text: GO_ON } };
      }
      return await withSource(context, draft, () => openDatabase(context, config, connection));
    },
  };
}

/** Postgres's categories of the types that columns of files have. */
const CATEGORIES: Readonly<Record<string, string>> = {
  text: "S",
  bigint: "N",
  numeric: "N",
  "double precision": "N",
  date: "D",
  "timestamp with time zone": "D",
  "timestamp without time zone": "D",
};

/** Connection of type duckdb, as configured or as it would be added. */
function fileConnection({ connections, file, dataDir }: Config, name: string): DuckDbConnection {
  const configured = connections[name];
  if (configured?.type === "duckdb") return configured;
  const none = { s3Endpoint: null, s3Region: null, accessKeyId: null, secretAccessKey: null, webToken: null };
  const places = { folder: dirname(file), scratch: join(dataDir, "inputs") };
  return { type: "duckdb", name, path: null, ...none, places: () => places };
}

/** Reads the columns of files, the rows of a new input. @param connection name of a connection that reads files */
export function fileQuestion(context: Context, config: Config, table: string, connection: string): Question {
  return {
    text: () => `Connection of type duckdb that reads ${table}`,
    proposal: () => connection,
    given: () => connection,
    owns: ({ path }, { answers }) => path === `inputs.${answers.input}.connection`,
    async read(_, before) {
      const draft = withAnswers(before, { connection });
      return await withSource(context, draft, async () => {
        const browser = openInputDatabase(fileConnection(config, connection));
        context.scope.defer("files", () => browser.close());
        const reading = {
          connection: null,
          where: null,
          orderBy: null,
          normalize: false,
          key: [],
          fields: {},
        };
        const described = await browser.describe({
          ...reading,
          name: before.answers.input,
          relation: { table: [table] },
        });
        const columns = described.map(({ name, typeName, isArray }) => ({
          name,
          typeName: isArray ? `${typeName}[]` : typeName,
          isArray,
          category: isArray ? "A" : (CATEGORIES[typeName] ?? "U"),
        }));
        const found = { schema: "", name: table, isView: false, rows: null, columns, uniqueKeys: [] };
        return { name: table, browser: { ...browser, listTables: async () => [found] }, tables: [found] };
      });
    },
  };
}

async function openDatabase(
  context: Context,
  { warehouse, connections, dataDir }: Config,
  name: string | null,
): Promise<OpenedSource | null> {
  const { schema, opsSchema, stateSchema } = warehouse;
  const own = name === null ? [schema, opsSchema, stateSchema] : [];
  const connection = name === null ? warehouse : connections[name];
  if (!connection || !("url" in connection)) return null;
  const { url, allowInsecure } = connection;
  if (url === "embedded") return await openEmbeddedSource(context, dataDir, own);
  return await openPostgresSource(context, { url: await url.read(), allowInsecure }, own);
}
