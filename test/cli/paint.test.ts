import { WriteStream } from "node:tty";
import { expect, test } from "vitest";
import { paint, printable, wrapLines } from "../../src/cli/output.ts";

/** A terminal that shows colors or doesn't; nothing is written to it. */
function terminal(isTTY: boolean): WriteStream {
  return Object.assign(Object.create(WriteStream.prototype) as WriteStream, {
    isTTY,
    getColorDepth: () => 8,
  });
}

test("marks and table headers are colored on a terminal, and nothing elsewhere", () => {
  const text = "job   sent\n──────────\na     ✓ 1\n\n✓ Done.\n  ✗ a: failed\n!important";
  expect(paint(text, terminal(true))).toBe(
    "\u001b[1mjob   sent\u001b[22m\n\u001b[2m──────────\u001b[22m\na     ✓ 1\n\n\u001b[32m✓\u001b[39m Done.\n  \u001b[31m✗\u001b[39m a: failed\n!important",
  );
  expect(paint(text, terminal(false))).toBe(text);
});

test.each(["x", " ", "✓ ", "!  ", "a ", "\u001b"])(
  "a line of %j repeated is shown in linear time",
  (piece) => {
    const startedMs = performance.now();
    const text = piece.repeat(100_000);
    expect(paint(wrapLines(printable(text), 80), terminal(true)).length).toBeGreaterThanOrEqual(text.length);
    // In quadratic time, it took half a minute.
    expect(performance.now() - startedMs).toBeLessThan(3000);
  },
);
