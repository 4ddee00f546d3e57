import { open, readFile, rename, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 100;
/** Longest wait for another test file, installations included. */
const SHARE_MS = 2_400_000;

/**
 * Makes something once for all test files of a run: the first caller makes it, others wait for its JSON document.
 * @param path of the document without its ending, in the run's folder
 */
export async function share<Made extends object>(path: string, make: () => Promise<Made>): Promise<Made> {
  try {
    await (await open(`${path}.lock`, "wx")).close();
  } catch {
    return readOutcome<Made>(`${path}.json`);
  }
  let outcome: Made | { readonly error: string } = { error: `${path} was not made` };
  try {
    outcome = await make();
    return outcome;
  } catch (error) {
    outcome = { error: String(error) };
    throw error;
  } finally {
    await writeFile(`${path}.part`, JSON.stringify(outcome));
    await rename(`${path}.part`, `${path}.json`);
  }
}

async function readOutcome<Made extends object>(file: string): Promise<Made> {
  for (const end = Date.now() + SHARE_MS; Date.now() < end; await delay(POLL_MS)) {
    const text = await readFile(file, "utf8").catch(() => null);
    if (text === null) continue;
    // `share` writes this document.
    const outcome = JSON.parse(text) as Made | { readonly error: string };
    if ("error" in outcome) throw new Error(outcome.error);
    return outcome;
  }
  throw new Error(`another test file did not make ${file}`);
}
