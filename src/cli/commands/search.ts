import type { Command } from "commander";
import { type FoundPeople, LARGEST_SIZE, searchOnce } from "../../jobs/search/search.ts";
import { unlockCostText } from "../../jobs/price.ts";
import { type AddCommand, type Context, newRunId, type Outcome, result, wholeNumber } from "../command.ts";
import { count, countText } from "../../figures.ts";
import { openJobServices, openFilled } from "../app.ts";
import { renderTable } from "../output.ts";

const DEFAULT_SIZE = 10;

/** `search`: makes one synchronous search and prints it. */
export const addSearch: AddCommand = (program, act) => {
  program
    .command("search")
    .description("search for people once and print the result; nothing is stored or unlocked")
    .argument("<query>", "description of an audience")
    .option("--size <n>", "maximum number of people, up to 100", wholeNumber(1), DEFAULT_SIZE)
    .action((query: string, flags: { readonly size: number }, command: Command) =>
      act(command, (context) => search(context, query, Math.min(flags.size, LARGEST_SIZE))),
    );
};

async function search(context: Context, query: string, size: number): Promise<Outcome> {
  // Erased people are left out, and calls are recorded.
  const { config, db } = await openFilled(context);
  const services = await openJobServices(context, config, db);
  const document = await searchOnce(services, newRunId(), { query, size });
  return result(document, render(document, context.widthColumns));
}

function render(
  { total_count: total, results, coverage, most_cost: cost }: FoundPeople,
  widthColumns: number | null,
): string {
  const channels = renderTable(
    [{ name: "contact channel" }, { name: "all matches", isNumber: true }, { name: "shown", isNumber: true }],
    coverage.map(({ channel, total: all, results: shown }) => [
      channel.replaceAll("_", " "),
      all === null ? "" : count(all),
      shown === null ? "" : count(shown),
    ]),
    widthColumns,
  );
  return [
    `${countText(total, "person", "people")} match, ${count(results.length)} shown.`,
    renderTable(
      [{ name: "service_pid" }],
      results.map((pid) => [pid]),
      widthColumns,
    ),
    channels,
    `An audience_search of this query would be billed at most ${countText(total, "record")}${unlockCostText(cost)} when unlocked. Nothing was unlocked.`,
  ].join("\n\n");
}
