import type { Command } from "commander";
import { systemClock } from "../../clock.ts";
import { type AddCommand, type Context, type Outcome, result, wholeNumber } from "../command.ts";
import { readToken, openFilled } from "../app.ts";

/** `ui`: serves the page of `schedule` without running anything. */
export const addUi: AddCommand = (program, act) => {
  program
    .command("ui")
    .description("show runs, freshness, cost, usage, coverage and rejects in a browser; runs nothing")
    .option("--port <n>", "port of the page; 0 for any free one (default: http.port)", wholeNumber(0, 65_535))
    .action((flags: { readonly port?: number }, command: Command) =>
      act(command, (context) => ui(context, flags.port ?? null)),
    );
};

async function ui(context: Context, port: number | null): Promise<Outcome> {
  const { config, db } = await openFilled(context);
  // Loaded here, because other commands don't need these modules; the charts before the first request.
  const [{ servePages }, { createLivePage }, { createOverview }] = await Promise.all([
    import("../../operate/pages.ts"),
    import("../../operate/page/render-page.ts"),
    import("../../operate/overview.ts"),
    import("../../operate/page/charts.ts").then(({ loadPlot }) => loadPlot()),
  ]);
  const services = { config, db, clock: systemClock, log: context.log };
  const overview = createOverview(() => services, context.stop.signal);
  const pages = await servePages(
    {
      page: createLivePage(() => services, overview.statusNow),
      probes: null,
      token: config.http.token && (() => readToken(context, config)),
    },
    { bind: config.http.bind, port: port ?? config.http.port },
  );
  context.scope.defer("pages", () => pages.close());
  await context.announce({ url: pages.url }, `Open ${pages.url} in a browser (until Ctrl-C).`);
  await context.untilStopped();
  return result(null, "");
}
