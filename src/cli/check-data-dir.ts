import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "../errors.ts";
import type { Finding } from "./check-finding.ts";

/** File systems lost with the machine or container, by magic number. */
const PASSING: ReadonlyMap<number, string> = new Map([
  [0x01021994, "tmpfs"],
  [0x858458f6, "ramfs"],
  [0x794c7630, "overlay"],
]);

/** Below this, `check` warns. */
const SCARCE_BYTES = 1024 ** 3;

/** Checks data_dir without creating it: writable, persistent, enough space. */
export async function checkDataDir(
  dataDir: string,
  needs: { readonly isEmbedded: boolean },
): Promise<Finding[]> {
  const existing = await nearestExisting(dataDir);
  const subject = "data_dir";
  if (!(await stat(existing)).isDirectory()) {
    return [
      { subject, status: "wrong", message: `${existing} is not a folder`, hint: "choose another data_dir" },
    ];
  }
  try {
    await access(existing, constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = codeOf(error) ?? "no access";
    return [
      {
        subject,
        status: "wrong",
        message: `this user can't write to ${existing} (${reason})`,
        hint: "grant the permission, or choose another data_dir",
      },
    ];
  }
  const { type, bavail, bsize } = await statfs(existing);
  const findings: Finding[] = [
    {
      subject,
      status: "ok",
      message: existing === dataDir ? `${dataDir} is writable` : `${dataDir} can be created in ${existing}`,
    },
  ];
  const passing = PASSING.get(type >>> 0);
  if (passing !== undefined) {
    const kept = needs.isEmbedded
      ? "the embedded database would be"
      : "received answers that wait to be loaded would be";
    findings.push({
      subject,
      status: "warning",
      message: `${existing} is on ${passing}: ${kept} lost with the machine or container`,
      hint: "put data_dir on a disk or a mounted volume",
    });
  }
  const freeBytes = bavail * bsize;
  const gigabytes = (freeBytes / 1024 ** 3).toFixed(1);
  findings.push(
    freeBytes < SCARCE_BYTES
      ? {
          subject: "disk space",
          status: "warning",
          message: `only ${gigabytes} GB free in ${existing}`,
          hint: needs.isEmbedded
            ? "100,000 people need about 1.5 GB in the embedded database"
            : "free some space",
        }
      : { subject: "disk space", status: "ok", message: `${gigabytes} GB free in ${existing}` },
  );
  return findings;
}

/** The path itself, or its nearest existing parent. */
async function nearestExisting(path: string): Promise<string> {
  try {
    await stat(path);
    return path;
  } catch (error) {
    const parent = dirname(path);
    if (parent === path) throw error;
    return await nearestExisting(parent);
  }
}
