import { dashboardScreenshots } from "./dashboard-screenshots.ts";
import { pageScreenshots } from "./page-screenshots.ts";

/**
 * Takes the pictures of the documentation, all or those named:
 *
 *     npm run screenshots [-- page dashboards]
 */
const makers: Readonly<Record<string, () => Promise<void>>> = {
  page: pageScreenshots,
  dashboards: dashboardScreenshots,
};

const named = process.argv.slice(2);
for (const name of named.length > 0 ? named : Object.keys(makers)) {
  const make = makers[name];
  if (!make) throw new Error(`There is no ${name}; use ${Object.keys(makers).join(", ")}.`);
  await make();
}
