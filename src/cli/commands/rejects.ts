import { openConfig, openFilledWarehouse } from "../app.ts";
import { type Context, findInput, type Outcome, parseSourceKey, requireYes, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import { paragraphs, table, type Text } from "../output.ts";
import type { Config } from "../../config/config.ts";
import { countText } from "../../figures.ts";
import { findJob } from "../../jobs/job-selection.ts";
import { ownRejectCodes, readRejects, type RejectReport } from "../../jobs/report/explain-row.ts";
import type { Db } from "../../load/db/db.ts";
import { suggest } from "../../suggest.ts";
import { countRejects, dropRejects, type RejectFilter, retryRejects } from "../../load/runs/rejects.ts";

interface FilterFlags {
  readonly job?: readonly string[];
  readonly code?: readonly string[];
  readonly sourceKey?: readonly string[];
}

interface ListFlags extends FilterFlags {
  readonly all?: boolean;
  readonly limit: number;
}

interface ChangeFlags extends FilterFlags {
  readonly yes?: boolean;
}

async function open(context: Context, { job = [], code = [], sourceKey = [] }: FilterFlags) {
  const config = await openConfig(context);
  const filter = { jobs: job, codes: code, rows: sourceKey.map((key) => parseSourceKey(key, config.inputs)) };
  return { config, filter, db: await openFilledWarehouse(context, config) };
}

/**
 * Throws if a named job, code or input is unknown. Former jobs and inputs, and codes of the service, may have rejects, so it is
 * checked if none is found.
 */
async function checkFilter(config: Config, db: Db, { jobs, codes, rows }: RejectFilter): Promise<void> {
  for (const name of jobs) findJob(config, name);
  for (const { source } of rows) findInput(config, source);
  const found = await countRejects(db, { jobs: [], codes: [], rows: [] }, { all: true });
  const known = [...new Set([...ownRejectCodes, ...found.map(({ code }) => code)])].toSorted();
  for (const code of codes.filter((given) => !known.includes(given))) {
    const meant = suggest(code, known);
    const hint = meant === null ? `The codes are ${known.join(", ")}.` : `Did you mean ${meant}?`;
    throw new UsageError(
      `No record was rejected with the code ${code}, and it is none of the program's. ${hint}`,
    );
  }
}

export async function list(context: Context, flags: ListFlags) {
  const { config, db, filter } = await open(context, flags);
  const report = await readRejects(db, filter, { all: flags.all === true, limit: flags.limit });
  if (report.rejects === 0) await checkFilter(config, db, filter);
  return result(report, renderList(report));
}

function renderList({ rejects, groups, records }: RejectReport): Text {
  if (rejects === 0) return "✓ No rejected records.";
  const meanings = groups.map(({ code, means, what_to_do }) => `• ${code}: ${means}\n  → ${what_to_do}`);
  const left = rejects - records.length;
  return paragraphs(
    table(groups, {
      job: ({ job }) => job,
      stage: ({ stage }) => stage,
      code: ({ code }) => code,
      records: (group) => group.rejects,
      newest: (group) => group.last_at,
    }),
    [...new Set(meanings)],
    table(records, {
      job: ({ job }) => job,
      source: ({ source }) => source,
      key: (row) => row.source_key ?? "(none)",
      code: ({ code }) => code,
      "rejected at": (row) => row.created_at,
    }),
    left > 0 && records.length > 0 ? `${countText(left, "more", "more")} not shown; --limit shows more.` : "",
  );
}

/** Marks rejects to be sent again in the next run of their job. */
export async function retry(context: Context, flags: ChangeFlags) {
  const what = "will be read and sent again in the job's next run, and may be billed";
  return await change(context, flags, what, async (db, filter) => {
    const retried = await retryRejects(db, filter);
    const others = retried.rejects - retried.due;
    const more =
      others === 0
        ? ""
        : ` ${countText(others, "other reject is", "other rejects are")} checked in every run anyway.`;
    const text = `✓ ${countText(retried.due, "rejected row")} will be sent in the next run of their job.${more}`;
    return result(retried, text);
  });
}

/** Resolves rejects without a retry. */
export async function drop(context: Context, flags: ChangeFlags) {
  return await change(context, flags, "will be resolved without a retry", async (db, filter) => {
    const rejects = await dropRejects(db, filter);
    return result({ rejects }, `✓ ${countText(rejects, "reject")} resolved.`);
  });
}

async function change<Changed extends object>(
  context: Context,
  flags: ChangeFlags,
  what: string,
  apply: (db: Db, filter: RejectFilter) => Promise<Outcome<Changed>>,
) {
  const { config, db, filter } = await open(context, flags);
  const groups = await countRejects(db, filter, { all: false });
  const rejects = groups.reduce((sum, group) => sum + group.rejects, 0);
  if (rejects === 0) {
    await checkFilter(config, db, filter);
    return result({ rejects: 0 }, "✓ No rejected record matches.");
  }
  await requireYes(context, flags.yes, `${countText(rejects, "rejected record")} ${what}`);
  return await apply(db, filter);
}
