import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { createLivePage } from "../../src/operate/page/render-page.ts";
import { type Pages, servePages } from "../../src/operate/pages.ts";
import { configOf, startWorld, threeJobs, type World } from "../jobs/world.ts";
import { openChromium } from "../support/chromium.ts";
import { ninetyDays } from "../support/ninety-days.ts";
import { readPageContent } from "../support/page-content.ts";

const night = `${threeJobs}
  customer_segment: { type: segment_push, name: Our customers, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  customer_members: { type: segment_members, segments: [{ job: customer_segment }] }
  customer_deaths: { type: death_signals, segments: [{ job: customer_segment }] }
  search_usage: { type: search_usage, schedule: "45 1 * * *" }
  endpoint_usage: { type: endpoint_usage, bucketing_size: day, start_date: 2026-01-01 }`;
const settings = `prices: { currency: EUR, resolve: 0.01, validate_emails: 0.002, enrich: 0.10 }
budgets: { enrich: { per_month: 1000 } }`;

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser: Browser;
beforeAll(async () => {
  browser = await openChromium();
});

/** Serves the page of a world after ninety nights. */
async function openPages(
  token: string | null = null,
): Promise<{ readonly world: World; readonly pages: Pages }> {
  const world = await startWorld({ rows: 300, config: configOf(night, settings) });
  await world.run();
  await world.rows(ninetyDays);
  const services = { ...(await world.services()), clock: systemClock };
  const live = createLivePage(
    () => services,
    () => readStatus(services),
  );
  const pages = await servePages(
    { page: live, probes: null, token: token === null ? null : async () => token },
    { bind: "127.0.0.1", port: 0 },
  );
  onTestFinished(() => pages.close());
  return { world, pages };
}

/** Opens a tab, which notes errors and requests to other places. */
async function openTab(
  url: string,
  options: BrowserContextOptions = {},
): Promise<{ readonly tab: Page; readonly remarks: string[] }> {
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  const tab = await context.newPage();
  const remarks: string[] = [];
  tab.on("console", (message) => remarks.push(`console: ${message.text()}`));
  tab.on("pageerror", (error) => remarks.push(`error: ${error.message}`));
  tab.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`)) remarks.push(`request: ${request.url()}`);
  });
  await tab.goto(url);
  return { tab, remarks };
}

/** Violations that axe finds, as `rule: element`. */
async function violations(tab: Page): Promise<readonly string[]> {
  // Evaluated from outside, because the page's policy allows no added script.
  await tab.evaluate(axe);
  const found = await tab.evaluate(async () => {
    // The script before has defined it.
    const { axe: tester } = globalThis as unknown as {
      axe: { run(options: RunOptions): Promise<AxeResults> };
    };
    return (await tester.run({ resultTypes: ["violations"] })).violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html }) => `${id}: ${html.slice(0, 150)}`),
    );
  });
  return found;
}

test("the page is drawn in Chromium without errors, in light and dark, on wide and narrow screens, with and without JavaScript", async () => {
  const { pages } = await openPages();
  for (const javaScriptEnabled of [true, false]) {
    for (const colorScheme of ["light", "dark"] as const) {
      for (const width of [1280, 320]) {
        const { tab, remarks } = await openTab(pages.url, {
          colorScheme,
          javaScriptEnabled,
          viewport: { width, height: 900 },
        });
        const place = `${colorScheme} ${width} ${javaScriptEnabled}`;
        // What Chromium holds is what was sent.
        const { tables, charts } = readPageContent(await tab.content());
        expect([place, Object.keys(tables).length, Object.keys(charts).length]).toEqual([place, 13, 6]);
        expect(tables["Jobs"]?.map((row) => row["state"])).toEqual(Array(8).fill("✓ up to date"));
        for (const chart of await tab.locator("figure").all()) {
          const box = await chart.locator("svg").boundingBox();
          expect([place, Math.round(box?.width ?? 0) > 250, Math.round(box?.height ?? 0) > 110]).toEqual([
            place,
            true,
            true,
          ]);
          const marks = await chart.locator("svg rect, svg circle").all();
          expect(marks.length).toBeGreaterThan(1);
          const [mark] = marks;
          const drawn = await mark?.boundingBox();
          expect([place, (drawn?.width ?? 0) > 1, (drawn?.height ?? 0) > 0.1]).toEqual([place, true, true]);
        }
        // Without JavaScript, nothing can be evaluated, and the page is the same.
        const found = javaScriptEnabled ? await violations(tab) : [];
        const contentWidth = javaScriptEnabled
          ? await tab.evaluate("document.documentElement.scrollWidth")
          : width;
        // Nothing but tables is wider than the screen.
        expect([place, found, contentWidth]).toEqual([place, [], width]);
        expect([place, remarks]).toEqual([place, []]);
      }
    }
  }
});

test("everything that can be operated is reached by keyboard, in the order of the page", async () => {
  const { pages } = await openPages();
  const { tab } = await openTab(pages.url);
  const wanted = await tab.locator("a[href], summary, [tabindex='0']").count();
  const isInside = "document.activeElement !== document.body";
  const reached: number[] = [];
  for (let at = 0; at <= wanted; at += 1) {
    await tab.keyboard.press("Tab");
    if (!(await tab.evaluate(isInside))) break;
    reached.push(Number(await tab.evaluate("document.activeElement.getBoundingClientRect().top + scrollY")));
  }
  // Tables inside closed runs are not reached.
  const hidden = await tab.locator("details:not([open]) [tabindex='0']").count();
  expect(reached).toHaveLength(wanted - hidden);
  await tab.locator("summary").nth(1).focus();
  await tab.keyboard.press("Enter");
  expect(await tab.locator("details").nth(1).getAttribute("open")).toBe("");
});

test("the page shows a job while it runs, and its figures when it has ended", async () => {
  const { world, pages } = await openPages();
  const { tab, remarks } = await openTab(pages.url);
  await world.rows(
    `INSERT INTO person_data_state.job_lock (job, shard, epoch, owner_token, run_id, host, pid, acquired_at, heartbeat_at, expires_at, _synced_at)
    VALUES ('enrich_customers', '0/1', 1, 't', 'next', 'etl-1', 42, now(), now(), now() + interval '5 minutes', now())
    ON CONFLICT (job, shard) DO UPDATE SET released_at = NULL, acquired_at = now(), expires_at = now() + interval '5 minutes'`,
  );
  await tab.getByRole("region", { name: "Running jobs" }).waitFor({ timeout: 30_000 });
  expect(await tab.locator("#running tbody th").allTextContents()).toEqual(["enrich_customers"]);
  const reloaded = tab.waitForEvent("load", { timeout: 30_000 });
  await world.rows(`UPDATE person_data_state.job_lock SET released_at = now();
    UPDATE person_data_ops.sync_run SET finished_at = clock_timestamp(), records_matched = 77 WHERE job = 'enrich_customers'
      AND run_id = (SELECT run_id FROM person_data_ops.sync_run ORDER BY started_at DESC LIMIT 1)`);
  await reloaded;
  await tab.locator("#running .note").waitFor();
  expect(
    await tab.locator("#runs details").first().locator("tr", { hasText: "enrich_customers" }).textContent(),
  ).toContain("77");
  expect(remarks).toEqual([]);
});

test("a browser logs in with the token, also without JavaScript", async () => {
  const { pages } = await openPages("the token");
  const { tab } = await openTab(pages.url, { javaScriptEnabled: false });
  await tab.getByLabel("Token").fill("another");
  await tab.getByRole("button", { name: "Log in" }).click();
  expect(await tab.getByRole("alert").textContent()).toContain("Wrong token.");
  await tab.getByLabel("Token").fill("the token");
  await tab.keyboard.press("Enter");
  await tab.getByRole("heading", { name: "Last runs" }).waitFor();
  const cookies = await tab.context().cookies();
  expect(cookies.map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }))).toEqual([
    { name: "person_etl", httpOnly: true, sameSite: "Strict" },
  ]);
});
