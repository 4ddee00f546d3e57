import { expect, test } from "vitest";
import { printable, printableJson } from "../../src/cli/output.ts";

test("tabs and lines stay; colors, titles, screens, cursors and directions don't", () => {
  expect(printable("é\tä\n✓")).toBe("é\tä\n✓");
  expect(printable("\u001b[8mhidden\u001b[0m")).toBe("\uFFFD[8mhidden\uFFFD[0m");
  expect(printable("a\u001b]0;TITLE\u0007b")).toBe("a\uFFFD]0;TITLE\uFFFDb");
  expect(printable("\u001b[2J\u001b[1;1H\r\u0000\u007f\u009b2J")).toBe(
    "\uFFFD[2J\uFFFD[1;1H\uFFFD\uFFFD\uFFFD\uFFFD2J",
  );
  expect(printable("txt\u202egpj\u2066")).toBe("txt\uFFFDgpj\uFFFD");
});

test("JSON has no such characters, and the same value", () => {
  const value = { name: "a\u009b2Jb\u202ec\u007f", emoji: "😀" };
  const shown = printableJson(JSON.stringify(value, null, 2));
  expect(shown).toBe(printable(shown));
  expect(JSON.parse(shown)).toEqual(value);
});
