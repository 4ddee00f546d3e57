import type { Config } from "../../config/config.ts";
import type { Problem } from "../../errors.ts";
import type { Db } from "../../load/db/db.ts";
import { type SpoolContent, surveySpool } from "../../spool/survey-spool.ts";
import { countText } from "../../figures.ts";
import { AFTER_A_MOVE } from "../publish/publication.ts";
import { spoolKind, spoolNameOf, spoolRoot } from "./job-spool.ts";

/** Received answers of one job that are not loaded yet. */
export interface WaitingAnswers {
  readonly calls: number;
  readonly bytes: number;
}

/** Contents of a data_dir's spool, from the point of view of a configuration. */
interface WaitingReport {
  /** By enabled job, whose next run loads them. */
  readonly byJob: ReadonlyMap<string, WaitingAnswers>;
  /** Answers in quarantine, and those that no run of this configuration loads. */
  readonly remarks: readonly Problem[];
}

/** Lists the spool's answers; changes nothing. @param db null if the warehouse's identity can't be read */
export async function reportWaiting(
  config: Pick<Config, "dataDir" | "jobs">,
  db: Db | null,
): Promise<WaitingReport> {
  const { contents, quarantined } = await surveySpool(spoolRoot(config));
  if (contents.length + quarantined.length === 0) return { byJob: new Map(), remarks: [] };
  const name = db && (await spoolNameOf(db));
  const byJob = new Map<string, WaitingAnswers>();
  const remarks: Problem[] = [];
  for (const content of contents) {
    const remark = remarkOn(content, config, { isKnown: db !== null, name });
    if (remark) remarks.push(remark);
    else {
      const { calls, bytes } = byJob.get(content.job) ?? { calls: 0, bytes: 0 };
      byJob.set(content.job, { calls: calls + content.calls, bytes: bytes + content.bytes });
    }
  }
  for (const { job, folder, files } of quarantined) {
    remarks.push({
      path: folder,
      message: `${countText(files, "received answer")} of ${job} can't be loaded and ${files === 1 ? "is" : "are"} in quarantine`,
      hint: "report it as a bug unless the disk is damaged; remove the folder once the files are no longer needed",
    });
  }
  return { byJob, remarks };
}

/** Reason why no run of this configuration loads these answers; null if one does. */
function remarkOn(
  { folder, job, calls, warehouse }: SpoolContent,
  config: Pick<Config, "jobs">,
  present: { readonly isKnown: boolean; readonly name: string | null },
): Problem | null {
  const answers = `${countText(calls, "received answer")} of ${job}`;
  const giveUp = "or remove the folder to give up the paid answers";
  const kind = present.isKnown ? spoolKind(warehouse, present.name) : "own";
  if (kind !== "own") {
    const owner =
      kind === "copy" ? "another copy of this database" : "a warehouse other than the configured one";
    const load = `run with that ${kind === "copy" ? "database" : "warehouse"}'s configuration to load ${calls === 1 ? "it" : "them"}, ${giveUp}`;
    return {
      path: folder,
      message: `${answers} ${calls === 1 ? "belongs" : "belong"} to ${owner}`,
      hint: kind === "copy" ? `${load}. ${AFTER_A_MOVE}` : load,
    };
  }
  const known = config.jobs.find(({ name }) => name === job);
  if (known?.enabled) return null;
  return {
    path: folder,
    message: `${answers} ${calls === 1 ? "waits" : "wait"} for a job that is ${known ? "disabled" : "no longer configured"}`,
    hint: `run any resolve, validate_emails or enrich job to load ${calls === 1 ? "it" : "them"}, ${giveUp}`,
  };
}
