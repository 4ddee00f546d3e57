import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** Starts the system's Chromium, headless. */
export async function launchChromium(): Promise<Browser> {
  const executablePath = await findChromium();
  // Root has no sandbox in Chromium, and containers have a small /dev/shm.
  const args = [...(process.getuid?.() === 0 ? ["--no-sandbox"] : []), "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args });
}

/** Finds Chromium in PERSON_ETL_TEST_CHROMIUM or on PATH. */
async function findChromium(): Promise<string> {
  const given = process.env["PERSON_ETL_TEST_CHROMIUM"];
  if (given) return given;
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    for (const name of NAMES) {
      const path = join(folder, name);
      const isThere = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (isThere) return path;
    }
  }
  throw new Error("This suite needs Chromium on PATH: run scripts/install-chromium.sh.");
}
