import { expect, test } from "vitest";
import { printable } from "../../src/cli/printable.ts";

test("colours, tabs and lines stay; titles, screens, cursors and directions don't", () => {
  expect(printable("\u001b[31mé\u001b[0m\tä\n✓")).toBe("\u001b[31mé\u001b[0m\tä\n✓");
  expect(printable("a\u001b]0;TITLE\u0007b")).toBe("a\uFFFD]0;TITLE\uFFFDb");
  expect(printable("\u001b[2J\u001b[1;1H\r\u0000\u007f\u009b2J")).toBe(
    "\uFFFD[2J\uFFFD[1;1H\uFFFD\uFFFD\uFFFD\uFFFD2J",
  );
  expect(printable("txt\u202egpj\u2066")).toBe("txt\uFFFDgpj\uFFFD");
});
