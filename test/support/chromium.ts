import type { Browser } from "playwright-core";
import { atEnd } from "../cli/support/at-end.ts";
import { launchChromium } from "./launch-chromium.ts";

/** Starts the system's Chromium, headless, until the test file ends. */
export async function openChromium(): Promise<Browser> {
  const browser = await launchChromium();
  atEnd(() => browser.close());
  return browser;
}
