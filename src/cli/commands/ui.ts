import { localServices, openFilled, readToken } from "../app.ts";
import { type Context, result } from "../command.ts";
import { createOverview } from "../../operate/overview.ts";
import { createLivePage } from "../../operate/page/render-page.ts";
import { servePages } from "../../operate/pages.ts";

interface UiFlags {
  readonly port?: number;
}

/** Serves the page of `schedule` without running anything. */
export async function ui(context: Context, flags: UiFlags) {
  const { config, db } = await openFilled(context);
  const services = localServices(context, config, db);
  const overview = createOverview(() => services, context.stop.signal);
  const { bind, port, token } = config.http;
  const pages = await servePages(
    {
      page: createLivePage(() => services, overview.statusNow),
      probes: null,
      token: token && (() => readToken(context, config)),
    },
    { bind, port: flags.port ?? port },
  );
  context.scope.defer("pages", () => pages.close());
  await context.announce({ url: pages.url }, `Open ${pages.url} in a browser (until Ctrl-C).`);
  await context.untilStopped();
  return result(null, "");
}
