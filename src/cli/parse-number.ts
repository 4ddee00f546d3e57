import { InvalidArgumentError } from "commander";

/** Parses a whole number of a flag, bounds inclusive. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least || value > most) {
      throw new InvalidArgumentError(
        `Expected a whole number, ${least} ${most === Number.MAX_SAFE_INTEGER ? "or more" : `to ${most}`}.`,
      );
    }
    return value;
  };
}
