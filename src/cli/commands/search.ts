import { openFilled, openJobServices } from "../app.ts";
import { type Context, dataResult, newRunId } from "../command.ts";
import { UsageError } from "../failure.ts";
import { paragraphs, table } from "../output.ts";
import { count, countText } from "../../figures.ts";
import { unlockCostText } from "../../jobs/price.ts";
import { searchOnce } from "../../jobs/search/search.ts";
import { checkServiceHost, identifyService } from "../../jobs/service-identity.ts";

interface SearchFlags {
  readonly size: number;
}

export async function search(context: Context, flags: SearchFlags, query: string) {
  if (query.trim() === "") throw new UsageError('Write a query, such as person-etl search "CFOs in Texas".');
  // Erased people are left out, and calls are recorded.
  const { config, db } = await openFilled(context);
  await checkServiceHost(config, db);
  const services = await openJobServices(context, config, db);
  const runId = newRunId();
  await identifyService(services, runId);
  const found = await searchOnce(services, runId, { query, size: flags.size });
  const { total_count: total, results, coverage, most_cost: cost } = found;
  const text = paragraphs(
    `${countText(total, "person", "people")} match, ${count(results.length)} shown.`,
    table(results, { service_pid: (pid) => pid }),
    table(coverage, {
      "contact channel": ({ channel }) => channel.replaceAll("_", " "),
      "all matches": (row) => row.total,
      shown: (row) => row.results,
    }),
    `Unlocking an audience_search of this query would bill up to ${countText(total, "record")}${unlockCostText(cost)}. Nothing was unlocked.`,
  );
  return dataResult(found, text);
}
