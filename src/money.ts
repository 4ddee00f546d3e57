/** Exact amount as plain decimal text with at most six decimals (`0.002`); prices and budgets are never negative. */
export type Amount = string;

/** Price of one billed record. */
export interface Price {
  readonly perRecord: Amount;
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

export function costOf(records: number, perRecord: Amount): Amount {
  return textOf(BigInt(records) * millionthsOf(perRecord));
}

export function sumOfAmounts(amounts: readonly Amount[]): Amount {
  return textOf(amounts.reduce((sum, amount) => sum + millionthsOf(amount), 0n));
}

/** Number of records that an amount pays for if every one is billed, rounded down; null for no limit (a price of 0). */
export function recordsFor(amount: Amount, perRecord: Amount): number | null {
  const price = millionthsOf(perRecord);
  return price === 0n ? null : Number(millionthsOf(amount) / price);
}

/** Amount with its currency, rounded to its cents unless it is less than one: `$1,234.50`, `$0.002`. */
export function amountText(amount: Amount | number, currency: string): string {
  const value = Number(amount);
  const { maximumFractionDigits: cents = 2 } = formatOf(currency).resolvedOptions();
  const isBelowCent = value !== 0 && Math.abs(value) < 10 ** -cents;
  return formatOf(currency, isBelowCent ? DECIMALS : cents).format(value);
}

/** Price with all its decimals: `$0.10`, `$0.0125`. */
export function priceText({ perRecord, currency }: Price): string {
  return formatOf(currency, DECIMALS).format(Number(perRecord));
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
