import { expect, test } from "vitest";
import { openChromium } from "../support/chromium.ts";

test("Chromium draws text in a font of this machine", async () => {
  const page = await (await openChromium()).newPage();
  await page.setContent("<span>usage</span>");
  expect(await page.locator("span").textContent()).toBe("usage");
  const box = await page.locator("span").boundingBox();
  expect(box?.width).toBeGreaterThan(20);
});
