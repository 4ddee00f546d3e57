import { openFilled } from "../app.ts";
import { type Context, type Outcome, result } from "../command.ts";
import { paragraphs, table, type Text } from "../output.ts";
import { systemClock } from "../../clock.ts";
import { countText } from "../../figures.ts";
import { type CostLine, type CostsReport, reportCosts } from "../../jobs/report/costs.ts";
import { amountText, priceText } from "../../money.ts";

interface CostsFlags {
  readonly month?: string;
}

export async function costs(context: Context, flags: CostsFlags): Promise<Outcome<CostsReport>> {
  const { config, db } = await openFilled(context);
  const report = await reportCosts({ config, db, clock: systemClock }, flags.month ?? null);
  return result(report, renderCosts(report));
}

const money = (value: number | null, currency: string | null) =>
  value === null || currency === null ? null : amountText(value, currency);

function renderCosts(report: CostsReport): Text {
  const { month, is_over: isOver, lines, currency, amount, amount_at_most: most, unknown } = report;
  const total =
    currency === ""
      ? `${countText(report.records_billed, "record")} billed.`
      : `Total: ${amountText(amount, currency)}${most > amount ? `, up to ${amountText(most, currency)}` : ""}.`;
  return paragraphs(
    `${month} (UTC)${isOver ? "" : " so far"}, from the ledger:`,
    table(lines, {
      endpoint: ({ endpoint }) => endpoint,
      job: ({ job }) => job,
      "billed by": ({ billed }) => billed,
      records: (line: CostLine) => line.records_billed,
      price: ({ price, currency: own }) => (price === null || own === null ? null : priceText(price, own)),
      amount: (line) => money(line.amount, line.currency),
      unconfirmed: ({ possibly_billed: possible }) => (possible === 0 ? null : possible),
      "would add": (line) =>
        line.possibly_billed === 0 ? null : money(line.possibly_billed_amount, line.currency),
    }),
    lines.length === 0 ? "Nothing was billed." : total,
    ["Not included in these figures:", ...unknown.map((text) => `• ${text}`)],
  );
}
