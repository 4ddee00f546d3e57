import { describe, expect, test } from "vitest";
import { commitOf, runOf } from "./nights.ts";
import { enrichSpec } from "./people.ts";
import { commitPersons, looseRecord, readRows, wholePerson } from "./person-updates.ts";
import { columnOf, type GetContext } from "./context.ts";
import * as fc from "../../support/fast-check.ts";

/** Any text that a database can store: no NUL, no lone surrogate. */
const text = fc
  .string({ unit: "binary", maxLength: 30 })
  .filter((value) => !value.includes("\0"))
  .map((value) => value.toWellFormed());

/** Tests that values in the warehouse equal the service's answers. */
export function describeValues(getContext: GetContext): void {
  describe("values", () => {
    test("texts are kept to the code point", async () => {
      const context = getContext();
      const values = [
        "",
        " ",
        "\\N",
        "\\.",
        "NULL",
        "{}",
        "a\tb\nc\rd\\e\\te\u000Bf\bg",
        "\u0001\u001F\u007F\u0080\uFFFE\uFFFF",
        "e\u0301 é ﬁ ß 👩‍👩‍👧 𝒜 \u{10FFFF}",
        "'; DROP TABLE person; --",
        "x".repeat(100_000),
      ];
      await commitPersons(
        context,
        values.map((full_name, i) => wholePerson(`p-${String(i).padStart(2, "0")}`, { full_name })),
      );
      expect(
        await columnOf(context, "SELECT full_name FROM person_data.person ORDER BY service_pid"),
      ).toEqual(values);
    });

    test("any texts come back as they went in, in every table and on both ways of loading", async () => {
      const context = getContext();
      const samples = fc.sample(fc.tuple(text, text, text, text), { numRuns: 300, seed: 7 });
      const personsOf = (shift: number) =>
        samples.map((_, i) => {
          const [full_name, email_address, city, subject] = samples[(i + shift) % samples.length] ?? [];
          return wholePerson(`p-${String(i).padStart(4, "0")}`, {
            full_name,
            personal_emails: [{ email_rank: 1, email_address }],
            address_history: [{ address_city: city }],
            education_experience: [{ education_majors: [subject] }],
            unnamed: [full_name, { [`key ${email_address}`]: city }],
          });
        });
      for (const [shift, answeredAt] of [
        [0, "2026-11-01T00:00:00+00:00"],
        [1, "2026-11-02T00:00:00+00:00"],
      ] as const) {
        await commitPersons(context, personsOf(shift), { answeredAt });
        const stored = await context.sql(`
          SELECT p.full_name, e.email_address, a.address_city, s.subject, p._extra->'unnamed'->>0 AS extra
          FROM person_data.person AS p JOIN person_data.person_email AS e USING (service_pid)
          JOIN person_data.person_address AS a USING (service_pid)
          JOIN person_data.person_education_subject AS s USING (service_pid) ORDER BY service_pid`);
        expect(stored.map((row) => Object.values(row))).toEqual(
          samples.map((_, i) => {
            const [name, email, city, subject] = samples[(i + shift) % samples.length] ?? [];
            return [name, email, city, subject, name];
          }),
        );
      }
    });

    test("numbers are exact, to 18 digits before and 20 after the point", async () => {
      const context = getContext();
      const numbers = [
        `${"9".repeat(18)}.${"9".repeat(20)}`,
        `-0.${"0".repeat(19)}1`,
        "12345678901234567.89",
        "0.1",
        "250000.5",
        "0",
      ];
      await commitPersons(context, [
        wholePerson("p-1", {
          age: 9_007_199_254_740_991,
          address_history: numbers.map((purchase_price) => ({ purchase_price })),
        }),
      ]);
      expect(
        await columnOf(context, "SELECT purchase_price FROM person_data.person_address ORDER BY position"),
      ).toEqual(numbers);
      expect(await columnOf(context, "SELECT age FROM person_data.person")).toEqual(["9007199254740991"]);
    });

    test.each([
      ["2026-11-21T04:00:00.123456+00:00", "2026-11-21 04:00:00.123456+00"],
      ["2026-11-21T04:00:00.000001+00:00", "2026-11-21 04:00:00.000001+00"],
      ["2026-11-21T04:00:00+00:00", "2026-11-21 04:00:00+00"],
      ["2026-03-29T02:30:00.999999+00:00", "2026-03-29 02:30:00.999999+00"],
      ["1969-12-31T23:59:59.999999+00:00", "1969-12-31 23:59:59.999999+00"],
      ["2199-06-07T08:09:10.111111+00:00", "2199-06-07 08:09:10.111111+00"],
    ])("the instant %s is kept to the microsecond", async (answeredAt, stored) => {
      const context = getContext();
      const readStored = async () => [
        ...(await columnOf(context, "SELECT request_completed_at FROM person_data.enrichment")),
        ...(await columnOf(context, "SELECT valid_from FROM person_data.match_history")),
        ...(await columnOf(context, "SELECT request_completed_at FROM person_data_state.lookup_answer")),
      ];
      await commitPersons(context, [wholePerson("p-1")], { answeredAt, keys: ["1"] });
      expect(await readStored()).toEqual([stored, stored, stored]);
    });

    test("days are days, and zone-less times stay zone-less", async () => {
      const context = getContext();
      const dobs = ["1900-01-01", "1980-02-29", "2026-03-29", "0001-01-01", "9999-12-31"];
      await commitPersons(
        context,
        dobs.map((dob, i) => wholePerson(`p-${i}`, { dob })),
      );
      expect(await columnOf(context, "SELECT dob FROM person_data.person ORDER BY service_pid")).toEqual(
        dobs,
      );
    });

    test("json is kept in an answer's columns", async () => {
      const context = getContext();
      const spec = enrichSpec();
      const run = runOf(spec);
      await readRows(context, spec, run, ["1"]);
      const commit = commitOf(context.warehouse, spec, run, [[looseRecord("1"), null]]);
      const errors =
        '{"emails": [{"at": 0, "why": "tab\\t, \\"quote\\", back\\\\slash"}], "n": 1.50, "z": null}';
      const answers = commit.answers.map((answer) => ({
        ...answer,
        cells: answer.cells.with(3, errors),
        extra: '{"b": [1, 2.0, 1e2], "a": "é"}',
      }));
      await context.warehouse.commitLookup({ ...commit, answers });
      const [row] = await context.sql("SELECT validation_errors, _extra FROM person_data.enrichment");
      expect(JSON.parse(row?.["validation_errors"] ?? "")).toEqual(JSON.parse(errors));
      expect(JSON.parse(row?.["_extra"] ?? "")).toEqual({ a: "é", b: [1, 2, 100] });
    });
  });
}
