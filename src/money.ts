/** Exact amount as plain decimal text with at most six decimals (`0.002`); prices and budgets are never negative. */
export type Amount = string;

/** Price of each billed record from a number of records in the UTC month on. */
export interface Tier {
  /** Billed records before the first one at this price. */
  readonly from: number;
  readonly amount: Amount;
}

/** Prices of the billed records of one budget. */
export interface Price {
  /** The first from 0, ascending. An included allowance is a tier of amount 0. */
  readonly tiers: readonly Tier[];
  /** Records that are billed; null if `prices` doesn't state it. */
  readonly per: "record" | "match" | null;
  /** ISO 4217 code. */
  readonly currency: string;
}

const DECIMALS = 6;
/** Millionths in one unit of a currency. */
const MILLIONTHS = 10n ** BigInt(DECIMALS);

/** Largest amount in the configuration: a double holds its 15 digits exactly. */
export const LARGEST_AMOUNT = 999_999_999;

/** Converts a number of the configuration; null if it is negative, too large or has more than six decimals. */
export function amountOf(value: number): Amount | null {
  const isAmount = value >= 0 && value <= LARGEST_AMOUNT && /^\d+(?:\.\d{1,6})?$/.test(String(value));
  return isAmount ? String(value) : null;
}

/** Cost of the first records of a month. */
export function costOf(records: number, tiers: readonly Tier[]): Amount {
  const costs = tiers.map(({ from, amount }, i) => {
    const own = Math.min(records, tiers[i + 1]?.from ?? records) - from;
    return BigInt(Math.max(0, own)) * millionthsOf(amount);
  });
  return textOf(costs.reduce((sum, cost) => sum + cost, 0n));
}

/**
 * Tiers of the records that follow `least` to `most` billed ones: of each the highest price that it can have, so that no number
 * of earlier records between the two makes them cost more.
 */
export function tiersAfter(tiers: readonly Tier[], least: number, most = least): readonly Tier[] {
  const starts = tiers.flatMap(({ from }) => [from - most, from - least]).filter((from) => from > 0);
  return [...new Set([0, ...starts])]
    .toSorted((a, b) => a - b)
    .map((from) => {
      const possible = tiers.filter((tier, i) => {
        const end = tiers[i + 1]?.from ?? Number.POSITIVE_INFINITY;
        return tier.from <= most + from && end > least + from;
      });
      return { from, amount: highest(possible.map(({ amount }) => amount)) };
    })
    .filter(({ amount }, i, all) => amount !== all[i - 1]?.amount);
}

function highest(amounts: readonly Amount[]): Amount {
  return amounts.reduce((most, amount) => (millionthsOf(amount) > millionthsOf(most) ? amount : most), "0");
}

export function sumOfAmounts(amounts: readonly Amount[]): Amount {
  return textOf(amounts.reduce((sum, amount) => sum + millionthsOf(amount), 0n));
}

/** Number of records that an amount pays for if every one is billed, rounded down; null for no limit (a last price of 0). */
export function recordsFor(amount: Amount, tiers: readonly Tier[]): number | null {
  let left = millionthsOf(amount);
  for (const [i, { from, amount: price }] of tiers.entries()) {
    const size = (tiers[i + 1]?.from ?? Number.POSITIVE_INFINITY) - from;
    const each = millionthsOf(price);
    if (each > 0n && Number(left / each) < size) return from + Number(left / each);
    if (size === Number.POSITIVE_INFINITY) return null;
    left -= BigInt(size) * each;
  }
  return null;
}

/** Billed records of a budget in the current UTC month; `most` also counts those that may have been billed. */
export interface BilledInMonth {
  readonly beforeToday: { readonly least: number; readonly most: number };
  readonly today: { readonly least: number; readonly most: number };
}

/** Budget given as amounts of money. */
export interface MoneyBudget {
  readonly price: Price;
  readonly day: Amount | null;
  readonly month: Amount | null;
}

interface MoneyLeft {
  /** Most that the records of the period can have cost so far. */
  readonly spent: Amount;
  /** Further records that are certainly paid for. */
  readonly records: number;
}

/** Amount that a budget in money leaves in a period, as if records in doubt were billed; null for no limit. */
export function moneyLeft(
  { price, ...amounts }: MoneyBudget,
  period: "day" | "month",
  { beforeToday, today }: BilledInMonth,
): MoneyLeft | null {
  const amount = amounts[period];
  const { least, most } = period === "day" ? beforeToday : { least: 0, most: 0 };
  const tiers = tiersAfter(price.tiers, least, most);
  const billed = period === "day" ? today.most : beforeToday.most + today.most;
  const records = amount === null ? null : recordsFor(amount, tiers);
  return records === null ? null : { spent: costOf(billed, tiers), records: Math.max(0, records - billed) };
}

/** Amount with its currency, rounded to its cents unless it is less than one: `$1,234.50`, `$0.002`. */
export function amountText(amount: Amount | number, currency: string): string {
  const value = Number(amount);
  const { maximumFractionDigits: cents = 2 } = formatOf(currency).resolvedOptions();
  const isBelowCent = value !== 0 && Math.abs(value) < 10 ** -cents;
  return formatOf(currency, isBelowCent ? DECIMALS : cents).format(value);
}

/** Price with all its decimals: `$0.10`, `$0.0125`. */
export function priceText(amount: Amount | number, currency: string): string {
  return formatOf(currency, DECIMALS).format(Number(amount));
}

function formatOf(currency: string, most?: number): Intl.NumberFormat {
  return new Intl.NumberFormat("en-US", {
    style: "currency",
    currency,
    ...(most === undefined ? {} : { maximumFractionDigits: most }),
  });
}

function millionthsOf(amount: Amount): bigint {
  const [whole = "0", decimals = ""] = amount.split(".");
  return BigInt(whole) * MILLIONTHS + BigInt(decimals.slice(0, DECIMALS).padEnd(DECIMALS, "0"));
}

function textOf(millionths: bigint): Amount {
  const decimals = String(millionths % MILLIONTHS)
    .padStart(DECIMALS, "0")
    .replace(/0+$/, "");
  const whole = String(millionths / MILLIONTHS);
  return decimals === "" ? whole : `${whole}.${decimals}`;
}
