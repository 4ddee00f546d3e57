import type { Context } from "../command.ts";
import { failureOf } from "../failure.ts";
import { type Draft, nameIn, type OpenedSource, type Question, type Reading, withAnswers } from "./ask.ts";
import { isNotCreatedYet, refuseForeignFolder } from "../app.ts";
import { complaintOnPostgresUrl } from "../../config/schema/values.ts";
import { DEFAULT_OPS_SCHEMA, DEFAULT_SCHEMA, DEFAULT_STATE_SCHEMA } from "../../config/schema/document.ts";
import type { PostgresTarget } from "../../load/db/connect.ts";
import { openEmbedded } from "../../load/embedded/open.ts";
import { openBrowser } from "../../load/inputs/postgres-profile.ts";
import { readPostgresAddress } from "../../postgres-address.ts";

/** The database, or the reason why it can't be read; both null for an embedded database that isn't created yet. */
export interface Opening {
  readonly source: OpenedSource | null;
  readonly failure: string | null;
}

/** Opens the embedded database, if it exists, and lists its tables except those in `ownSchemas`. */
export async function openEmbeddedSource(
  context: Context,
  dataDir: string,
  ownSchemas: readonly string[],
): Promise<Opening> {
  const isAbsent = await isNotCreatedYet({ warehouse: { url: "embedded" }, dataDir });
  if (isAbsent) return { source: null, failure: null };
  return await attempt(context, async () => {
    await refuseForeignFolder(dataDir);
    context.notify("Starting the embedded database …");
    const server = await openEmbedded({ dataDir, log: context.log, signal: context.stop.signal });
    context.scope.deferProgram("embedded database", () => server.close());
    return await list(context, { url: server.connectionString }, ownSchemas);
  });
}

/** Opens a Postgres database and lists its tables except those in `ownSchemas`. */
export async function openPostgresSource(
  context: Context,
  target: PostgresTarget,
  ownSchemas: readonly string[],
): Promise<Opening> {
  context.scrubber.hide(readPostgresAddress(target.url).password);
  return await attempt(context, () => list(context, target, ownSchemas));
}

async function list(
  context: Context,
  target: PostgresTarget,
  ownSchemas: readonly string[],
): Promise<OpenedSource> {
  const { host, port, database } = readPostgresAddress(target.url);
  const name = `Postgres at ${host}:${port}${database === null ? "" : `/${database}`}`;
  const browser = openBrowser(target, { name, path: "the address" });
  context.scope.defer("database", () => browser.close());
  return { name, browser, tables: await browser.listTables(ownSchemas) };
}

async function attempt(context: Context, open: () => Promise<OpenedSource>): Promise<Opening> {
  try {
    return { source: await open(), failure: null };
  } catch (error) {
    context.stop.signal.throwIfAborted();
    const { message, problems } = failureOf(error, "listing the tables");
    const hint = problems[0]?.hint;
    // The rest of the message is about runs.
    const [sentence = message] = /^.*?[.](?= |$)/su.exec(message) ?? [];
    return { source: null, failure: hint === undefined ? sentence : `${sentence}\n  → ${hint}` };
  }
}

const OWN_SCHEMAS = [DEFAULT_SCHEMA, DEFAULT_OPS_SCHEMA, DEFAULT_STATE_SCHEMA];

/** Variables proposed for the warehouse's address, if set. */
const USUAL_NAMES = ["WAREHOUSE_URL", "DATABASE_URL"];

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

const GO_ON = "Enter: go on without reading tables";

/** Removes the decoration of `$NAME` and `${NAME}`. */
const bareName = (reply: string) => reply.replace(/^\$\{?(\w+)\}?$/, "$1");

/** Asks for the service. */
export const serviceQuestion: Question = {
  text: () => "Service: https:// address, or `sandbox` to try it without a key",
  proposal: ({ answers }) => answers.baseUrl,
  given: (flags) => flags.baseUrl,
  owns: ({ path }) => path === "service.base_url",
  read: (baseUrl, draft) => ({
    draft: withAnswers(draft, {
      baseUrl,
      apiKey: baseUrl === "sandbox" ? null : "${PERSON_SERVICE_API_KEY}",
    }),
  }),
};

/** Asks for the variable of the key. */
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
export function warehouseQuestion(context: Context, dataDir: string, isComplete: boolean): Question {
  const set = USUAL_NAMES.find((name) => context.env[name]?.trim());

  async function readEmbedded(draft: Draft): Promise<Reading> {
    const opening = isComplete ? UNREAD : await openEmbeddedSource(context, dataDir, OWN_SCHEMAS);
    return readingOf(opening, withAnswers(draft, { warehouseUrl: "embedded", allowInsecure: false }));
  }

  async function readAddress(name: string, address: string, draft: Draft): Promise<Reading> {
    const complaint = complaintOnPostgresUrl(address);
    if (complaint) return { refused: `${name} ${complaint.message}.\n  → ${complaint.hint}` };
    const { isLocal, tls } = readPostgresAddress(address);
    const allowInsecure = !isLocal && tls !== null && tls !== "verify";
    const next = withAnswers(draft, { warehouseUrl: `\${${name}}`, allowInsecure });
    const opening = isComplete
      ? UNREAD
      : await openPostgresSource(context, { url: address, allowInsecure }, OWN_SCHEMAS);
    const reading = readingOf(opening, next);
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
    given: (flags) => flags.warehouseUrlEnv,
    owns: ({ path }) => path.startsWith("warehouse."),
    async read(reply, before) {
      const draft = { ...before, source: null };
      if (reply === "embedded") return await readEmbedded(draft);
      if (/^postgres(?:ql)?:/u.test(reply)) {
        context.scrubber.hide(reply);
        const [name = "WAREHOUSE_URL"] = USUAL_NAMES;
        return await readAddress(name, reply, { ...draft, typed: { ...draft.typed, [name]: reply } });
      }
      const name = bareName(reply);
      if (!VARIABLE.test(name))
        return { refused: "Type `embedded`, or the name of an environment variable." };
      const value = (draft.typed[name] ?? context.env[name])?.trim();
      if (value) return await readAddress(name, value, draft);
      return readingOf(
        { source: null, failure: isComplete ? null : `${name} isn't set here, so the tables can't be read.` },
        withAnswers(draft, { warehouseUrl: `\${${name}}`, allowInsecure: false }),
      );
    },
  };
}

/** For flags that leave nothing to propose. */
const UNREAD: Opening = { source: null, failure: null };

/** Reading of a reply that opened a database. */
export function readingOf({ source, failure }: Opening, draft: Draft): Reading {
  const next = { ...draft, source };
  return failure === null ? { draft: next } : { refused: failure, otherwise: { draft: next, text: GO_ON } };
}
