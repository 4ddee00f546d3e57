import { expect, test } from "vitest";
import { readPartialDate } from "../../src/schemas/derive.ts";
import * as fc from "../support/fast-check.ts";

test.each([
  ["2019", "2019-01-01", "year"],
  ["2019-04", "2019-04-01", "month"],
  ["2019-04-09", "2019-04-09", "day"],
  ["0001", "0001-01-01", "year"],
  ["9999-12-31", "9999-12-31", "day"],
  ["2000-02-29", "2000-02-29", "day"],
  ["2024-02-29", "2024-02-29", "day"],
])("%s is %s with the precision %s", (text, on, precision) => {
  expect(readPartialDate(text)).toEqual([on, precision]);
});

test.each([
  "",
  " ",
  " 2019",
  "2019 ",
  "2019-04\n",
  "0000",
  "0000-01-01",
  "2019-00",
  "2019-13",
  "2019-04-00",
  "2019-04-31",
  "2019-02-29",
  "1900-02-29",
  "2100-02-29",
  "219",
  "20190",
  "-2019",
  "2019-4",
  "201904",
  "2019/04",
  "04/2019",
  "2019-04-9",
  "2019-04-09T00:00:00Z",
  "2019-Q1",
  "Present",
  "٢٠١٩",
])("%j is no date", (text) => {
  expect(readPartialDate(text)).toEqual([null, null]);
});

test("every day of the calendar is itself, and gives its month and year their first day", () => {
  const from = new Date("0001-01-01T00:00:00Z");
  const to = new Date("9999-12-31T00:00:00Z");
  fc.assert(
    fc.property(fc.date({ min: from, max: to, noInvalidDate: true }), (instant) => {
      const day = instant.toISOString().slice(0, 10);
      expect(readPartialDate(day)).toEqual([day, "day"]);
      expect(readPartialDate(day.slice(0, 7))).toEqual([`${day.slice(0, 7)}-01`, "month"]);
      expect(readPartialDate(day.slice(0, 4))).toEqual([`${day.slice(0, 4)}-01-01`, "year"]);
    }),
  );
});

test("a text of a date's form is a date exactly if the calendar has the day", () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^\d{4}$/),
      fc.stringMatching(/^[01]\d$/),
      fc.stringMatching(/^[0-3]\d$/),
      (y, m, d) => {
        const text = `${y}-${m}-${d}`;
        const at = Date.parse(`${text}T00:00:00Z`);
        // Date accepts year 0, and days up to 31 in every month.
        const exists = y !== "0000" && !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
        expect(readPartialDate(text)).toEqual(exists ? [text, "day"] : [null, null]);
      },
    ),
    { numRuns: 2000 },
  );
});

test("no text throws, and a date is null exactly if its precision is", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[\d-]{0,12}$/)), (text) => {
      const [on, precision] = readPartialDate(text);
      expect(on === null).toBe(precision === null);
      const day = on ?? "2019-04-09";
      expect(new Date(`${day}T00:00:00Z`).toISOString()).toBe(`${day}T00:00:00.000Z`);
    }),
    { numRuns: 1000 },
  );
});
