import { InvalidArgumentError } from "commander";

/** Parses a whole number of a flag. */
export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least) {
      throw new InvalidArgumentError(`Expected a whole number, ${least} or more.`);
    }
    return value;
  };
}
