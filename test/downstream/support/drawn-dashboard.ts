import { setTimeout as delay } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { ADMIN } from "./superset.ts";

const DRAW_MS = 120_000;

/** A chart of a dashboard in the browser. */
export interface DrawnChart {
  readonly name: string;
  /** Error or "no data"; null if it shows figures. */
  readonly problem: string | null;
  /** Text of a chart with one figure; empty for others. */
  readonly figure: string;
}

/** Opens a page of a user who has logged in; collects errors of the console and refused requests. */
export async function openSuperset(
  browser: Browser,
  url: string,
): Promise<{ readonly page: Page; readonly errors: readonly string[] }> {
  // Charts are drawn only in view.
  const page = await browser.newPage({ viewport: { width: 1280, height: 2400 } });
  const errors: string[] = [];
  page.on("pageerror", (error) => void errors.push(error.message));
  page.on("console", (message) => {
    // Superset's pages also load pictures from elsewhere, which a machine offline can't reach.
    const isOurs = message.location().url.startsWith(url);
    if (message.type() === "error" && isOurs) errors.push(message.text());
  });
  page.on("response", (response) => {
    if (response.status() >= 400 && response.url().startsWith(url))
      errors.push(`${response.status()} ${response.url()}`);
  });
  await page.goto(`${url}/login/`);
  await page.fill("#username", ADMIN.name);
  await page.fill("#password", ADMIN.password);
  await page.keyboard.press("Enter");
  await page.waitForURL((address) => !address.pathname.includes("login"));
  return { page, errors };
}

/** Opens a dashboard and waits until all of its charts are drawn or have failed. */
export async function drawDashboard(
  page: Page,
  url: string,
  slug: string,
  charts: number,
): Promise<readonly DrawnChart[]> {
  await page.goto(`${url}/superset/dashboard/${slug}/?standalone=1`);
  let last = "";
  for (const end = Date.now() + DRAW_MS; Date.now() < end; await delay(700)) {
    const states = await page.evaluate<readonly ChartState[]>(READ_CHARTS);
    const text = JSON.stringify(states);
    const isSettled = states.length === charts && states.every(({ isLoading }) => !isLoading);
    // Charts are animated at first.
    if (isSettled && text === last) {
      return states.map(({ name, error, figure, marks }) => ({
        name,
        problem: error ?? (marks === 0 && !/\d/.test(figure) ? "no figure" : null),
        figure,
      }));
    }
    last = text;
  }
  throw new Error(`${slug} was not drawn: ${last}`);
}

/** Takes a picture of the dashboard that is open, down to its last chart. */
export async function pictureDashboard(page: Page, file: string): Promise<void> {
  const bottoms = `Array.from(document.querySelectorAll(".dashboard-component-chart-holder"), (chart) => chart.getBoundingClientRect().bottom)`;
  const height = Math.ceil(await page.evaluate<number>(`Math.max(...${bottoms})`)) + 16;
  await page.screenshot({ path: file, clip: { x: 0, y: 0, width: 1280, height } });
}

interface ChartState {
  readonly name: string;
  readonly isLoading: boolean;
  readonly error: string | null;
  readonly figure: string;
  /** Rows of a table, or a sum over the colored pixels below the legend. */
  readonly marks: number;
}

/** Runs in the browser. */
const READ_CHARTS = `Array.from(document.querySelectorAll("[data-test='chart-grid-component']"), (chart) => {
  const failure = chart.querySelector(".ant-alert-error, .ant-empty");
  const canvas = chart.querySelector("canvas");
  let marks = chart.querySelectorAll("tbody tr td").length;
  if (canvas && canvas.width > 0 && canvas.height > 0) {
    const top = Math.floor(canvas.height / 6);
    const { data } = canvas.getContext("2d").getImageData(0, top, canvas.width, canvas.height - top);
    for (let i = 0; i < data.length; i += 4) {
      const color = [data[i], data[i + 1], data[i + 2]];
      if (data[i + 3] > 0 && Math.max(...color) - Math.min(...color) > 30) marks += 1 + (i % 997);
    }
  }
  return {
    name: chart.dataset.testChartName,
    isLoading: chart.querySelector("[data-test='loading-indicator']") !== null
      || (!failure && !chart.querySelector("[data-test='slice-container']")),
    error: failure ? failure.textContent || "no rows" : null,
    figure: chart.querySelector(".header-line")?.textContent ?? "",
    marks,
  };
})`;
