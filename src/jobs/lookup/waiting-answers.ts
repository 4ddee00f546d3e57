import type { Db } from "../../load/db/db.ts";
import type { Config } from "../../config/config.ts";
import type { Problem } from "../../errors.ts";
import { type SpoolContent, surveySpool } from "../../spool/survey-spool.ts";
import { countText } from "./estimate.ts";
import { spoolNameOf, spoolRoot } from "./job-spool.ts";

/** Received answers of one job that wait on disk to be loaded. */
export interface WaitingAnswers {
  readonly calls: number;
  readonly bytes: number;
}

/** What stands in the spool of a data_dir, as the configuration sees it. */
export interface WaitingReport {
  /** By job, of those that are switched on; the next run of the job loads them. */
  readonly byJob: ReadonlyMap<string, WaitingAnswers>;
  /** What no run of this configuration will load, and files that can't be believed: what, where, and what to do. */
  readonly remarks: readonly Problem[];
}

/** Looks at what waits; changes nothing. @param warehouse null where it can't be asked who it is. */
export async function reportWaiting(
  config: Pick<Config, "dataDir" | "jobs">,
  db: Db | null,
): Promise<WaitingReport> {
  const { contents, damaged } = await surveySpool(spoolRoot(config));
  if (contents.length + damaged.length === 0) return { byJob: new Map(), remarks: [] };
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
  for (const { job, folder, files } of damaged) {
    remarks.push({
      path: folder,
      message: `${countText(files, "received answer")} of ${job} can't be read: the disk has changed what was written`,
      hint: "the records are sent again; see whether the disk is sound, then remove the folder",
    });
  }
  return { byJob, remarks };
}

/** Why no run of this configuration loads answers; null when one does. */
function remarkOn(
  { folder, job, calls, warehouse }: SpoolContent,
  config: Pick<Config, "jobs">,
  present: { readonly isKnown: boolean; readonly name: string | null },
): Problem | null {
  const answers = `${countText(calls, "received answer")} of ${job}`;
  const giveUp = "or remove the folder to give up what was paid for";
  if (present.isKnown && warehouse !== present.name) {
    return {
      path: folder,
      message: `${answers} ${calls === 1 ? "belongs" : "belong"} to another warehouse than the configured one`,
      hint: `run with that warehouse's configuration to load ${calls === 1 ? "it" : "them"}, ${giveUp}`,
    };
  }
  const known = config.jobs.find(({ name }) => name === job);
  if (known?.enabled) return null;
  return {
    path: folder,
    message: `${answers} ${calls === 1 ? "waits" : "wait"} for a job that is ${known ? "switched off" : "no longer configured"}`,
    hint: `${known ? "switch the job on" : "put the job back under its name"} and run it to load ${calls === 1 ? "it" : "them"}, ${giveUp}`,
  };
}
