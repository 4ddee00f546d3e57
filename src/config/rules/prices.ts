import type { Problems } from "../problems.ts";
import { budgetNames } from "../schema/document.ts";
import type { JobDeclaration } from "../schema/jobs.ts";
import { entriesOf, entryNamed, type WrittenFile } from "../written-file.ts";

/** Checks that every budget given as an amount of money has a price. */
export function checkPrices(
  { budgets, prices }: WrittenFile,
  jobTypes: readonly JobDeclaration[],
  problems: Problems,
): void {
  const known = budgetNames(jobTypes);
  for (const [name, limits] of entriesOf(budgets).filter(([budget]) => known.includes(budget))) {
    for (const [period, limit] of entriesOf(limits)) {
      const isAmount = typeof limit === "object" && limit !== null && "amount" in limit;
      if (!isAmount || (prices && entryNamed(prices, name) !== undefined)) continue;
      problems.add(["budgets", name, period, "amount"], {
        message: `needs the price of one billed record, prices.${name}`,
        hint: prices
          ? `add ${name}: 0.10 to \`prices\`, or write the number of records`
          : `add prices: { currency: USD, ${name}: 0.10 }, or write the number of records`,
      });
    }
  }
}
