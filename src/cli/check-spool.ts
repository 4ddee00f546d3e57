import type { Db } from "../load/db/db.ts";
import type { Config } from "../config/config.ts";
import { reportWaiting } from "../jobs/lookup/waiting-answers.ts";
import type { Finding } from "./check-finding.ts";
import { counted, megabytes } from "./figures.ts";

/** Checks received answers on disk: those to be loaded by the next run, and those that no run will load. */
export async function checkSpool(config: Config, db: Db | null): Promise<readonly Finding[]> {
  const subject = "spool";
  const { byJob, remarks } = await reportWaiting(config, db);
  const waiting = [...byJob].map(([job, { calls, bytes }]): Finding => {
    const message = `${counted(calls, "received answer")} of ${job} (${megabytes(bytes)}) waiting for its next run`;
    return { subject, status: "ok", message };
  });
  const leftBehind = remarks.map(({ path, message, hint = "" }): Finding => {
    return { subject, status: "warning", message: `${path}: ${message}`, hint };
  });
  const nothing: Finding = { subject, status: "ok", message: "no received answer is waiting" };
  return waiting.length + leftBehind.length === 0 ? [nothing] : [...waiting, ...leftBehind];
}
