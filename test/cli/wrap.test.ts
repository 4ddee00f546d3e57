import { expect, test } from "vitest";
import * as fc from "../support/fast-check.ts";
import { wrapLines } from "../../src/cli/output.ts";

test("a sentence is broken between words, and indented below its mark", () => {
  expect(wrapLines("✗ customers: the table does not exist\n  → create it, or choose another one", 24)).toBe(
    "✗ customers: the table\n  does not exist\n  → create it, or choose\n    another one",
  );
});

test("a finding is indented below its text", () => {
  expect(wrapLines("✓ disk space  42.5 GB free in /var/lib", 28)).toBe(
    "✓ disk space  42.5 GB free\n              in /var/lib",
  );
});

test("an indented line with a label is indented below its text", () => {
  expect(wrapLines("  billed: 0 to 2,000 (no history)", 20)).toBe(
    "  billed: 0 to 2,000\n          (no\n          history)",
  );
});

test("indented lines and words that are longer than the terminal stay whole", () => {
  const command = "  person-etl --config /a/very/long/path/config.yaml run";
  expect(wrapLines(`${command}\n/a/very/long/path is missing`, 12)).toBe(
    `${command}\n/a/very/long/path\nis missing`,
  );
});

test("without a terminal nothing is broken", () => {
  const text = `✓ ${"word ".repeat(60)}`;
  expect(wrapLines(text, null)).toBe(text);
});

test("wrapping changes only spaces", () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[✓• ]{0,3}[a-z ]{0,90}$/u),
      fc.integer({ min: 8, max: 100 }),
      (line, width) => {
        expect(wrapLines(line, width).replaceAll(/\s+/g, "")).toBe(line.replaceAll(/\s+/g, ""));
      },
    ),
  );
});
