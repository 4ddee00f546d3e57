import { WriteStream } from "node:tty";
import { describe, expect, test } from "vitest";
import * as fc from "../support/fast-check.ts";
import {
  createLogger,
  createScrubber,
  layOut,
  paint,
  printable,
  printableJson,
  table,
  wrapLines,
} from "../../src/cli/output.ts";

/** A terminal that shows colors or doesn't; nothing is written to it. */
function terminal(isTTY: boolean): WriteStream {
  return Object.assign(Object.create(WriteStream.prototype) as WriteStream, {
    isTTY,
    getColorDepth: () => 8,
  });
}

describe("a table", () => {
  const rows = [
    { job: "resolve", read: 15_000, share: "85.2%", cost: "$1,200.50 (est)", at: "3 d ago" },
    { job: "日本", read: 9, share: "–", cost: "$5.00", at: "never" },
  ];
  const columns = {
    job: ({ job }: (typeof rows)[number]) => job,
    read: ({ read }: (typeof rows)[number]) => read,
    share: ({ share }: (typeof rows)[number]) => share,
    waiting: () => null,
    cost: ({ cost }: (typeof rows)[number]) => cost,
    at: ({ at }: (typeof rows)[number]) => at,
  };

  test("has figures on the right, and no column without any value", () => {
    expect(layOut(table(rows, columns), null)).toBe(`job        read  share             cost  at
────────────────────────────────────────────────
resolve  15,000  85.2%  $1,200.50 (est)  3 d ago
日本          9      –            $5.00  never`);
  });

  test("that is wider than the terminal has a block for each row", () => {
    expect(layOut(table(rows, columns), 40)).toBe(`resolve
  read 15,000, share 85.2%, cost
  $1,200.50 (est), at 3 d ago
日本
  read 9, share –, cost $5.00, at never`);
  });

  test("has cells of a thousand characters at most, cut between characters, in one line", () => {
    const cells = ["a\n  b", `${"x".repeat(999)}😀${"x".repeat(100_000)}`];
    const [, , first, second] = layOut(table(cells, { key: (cell) => cell }), null).split("\n");
    expect([first, second]).toEqual(["a b", `${"x".repeat(999)}\uFFFD…`]);
  });
});

describe("lines on a terminal", () => {
  const command = "  person-etl --config /a/very/long/path/config.yaml run";
  test.each([
    [
      "below its mark",
      24,
      "✗ customers: the table does not exist\n  → create it, or choose another one",
      "✗ customers: the table\n  does not exist\n  → create it, or choose\n    another one",
    ],
    [
      "below its text",
      28,
      "✓ disk space  42.5 GB free in /var/lib",
      "✓ disk space  42.5 GB free\n              in /var/lib",
    ],
    [
      "below a label",
      20,
      "  billed: 0 to 2,000 (no history)",
      "  billed: 0 to 2,000\n          (no\n          history)",
    ],
    [
      "but a command to copy and a long word are not",
      12,
      `${command}\n/a/very/long/path is missing`,
      `${command}\n/a/very/long/path\nis missing`,
    ],
    ["but nothing is without a terminal", null, `✓ ${"word ".repeat(60)}`, `✓ ${"word ".repeat(60)}`],
  ])("are continued %s", (_where, width, text, wrapped) => {
    expect(wrapLines(text, width)).toBe(wrapped);
  });

  test("lose nothing but spaces", () => {
    const anyLine = fc.stringMatching(/^[✓• ]{0,3}[a-z ]{0,90}$/u);
    fc.assert(
      fc.property(anyLine, fc.integer({ min: 8, max: 100 }), (line, width) => {
        expect(wrapLines(line, width).replaceAll(/\s+/g, "")).toBe(line.replaceAll(/\s+/g, ""));
      }),
    );
  });

  test("have colors in marks and table headers, on a terminal only", () => {
    const text = "job   sent\n──────────\na     ✓ 1\n\n✓ Done.\n  ✗ a: failed\n!important";
    expect(paint(text, terminal(true))).toBe(
      "\u001b[1mjob   sent\u001b[22m\n\u001b[2m──────────\u001b[22m\na     ✓ 1\n\n\u001b[32m✓\u001b[39m Done.\n  \u001b[31m✗\u001b[39m a: failed\n!important",
    );
    expect(paint(text, terminal(false))).toBe(text);
  });

  test("have no control sequence but ours: colors, titles, screens, cursors and directions are replaced", () => {
    expect(printable("é\tä\n✓ a\u001b]0;TITLE\u0007b\u001b[2J\r\u0000\u007f\u009b2Jtxt\u202egpj\u2066")).toBe(
      "é\tä\n✓ a\uFFFD]0;TITLE\uFFFDb\uFFFD[2J\uFFFD\uFFFD\uFFFD\uFFFD2Jtxt\uFFFDgpj\uFFFD",
    );
    const value = { name: "a\u009b2Jb\u202ec\u007f", emoji: "😀" };
    const json = printableJson(JSON.stringify(value, null, 2));
    expect([json, JSON.parse(json)]).toEqual([printable(json), value]);
  });
});

test.each(["x", " ", "✓ ", "!  ", "a ", "\u001b", "a@", "@", ".a"])(
  "a long line of %j takes linear time",
  (piece) => {
    const startedMs = performance.now();
    const text = piece.repeat(200_000 / piece.length);
    expect(paint(wrapLines(printable(text), 80), terminal(true)).length).toBeGreaterThanOrEqual(text.length);
    createScrubber().scrub(`a@${text}`);
    // In quadratic time, it took half a minute.
    expect(performance.now() - startedMs).toBeLessThan(4000);
  },
);

test("the log loses secrets in plain text, in JSON and in addresses, and everything like an e-mail address", () => {
  const scrubber = createScrubber();
  scrubber.hide('p@ss"word/1');
  expect(scrubber.scrub('a p@ss"word/1 b p@ss\\"word/1 c p%40ss%22word%2F1 {"b":"x@y.co;z@w.org"}')).toBe(
    'a [redacted] b [redacted] c [redacted] {"b":"[redacted];[redacted]"}',
  );
});

test("results lose long secrets alone: a password that is a word must not change their JSON", () => {
  const scrubber = createScrubber();
  scrubber.hide("postgres");
  scrubber.hide("sk-0123456789abcdef");
  expect(scrubber.strike('{"warehouse":"postgres","key":"sk-0123456789abcdef"}')).toBe(
    '{"warehouse":"postgres","key":"[redacted]"}',
  );
});

/** Line of an unexpected error on a terminal or in a file. */
function lineAt(level: "info" | "debug", isForPeople = true): string {
  const lines: string[] = [];
  const sink = (line: string) => void lines.push(line);
  const log = createLogger({ level, isForPeople, scrubber: createScrubber(), sink });
  log.error({ key: "\u001b[8mhidden", figures: "x".repeat(300), error: new RangeError("a value") }, "failed");
  return lines.join("\n");
}

test("a log line on a terminal is cut, but at level debug has the places of an unexpected error", () => {
  expect(lineAt("info").length).toBeLessThan(300);
  expect(lineAt("debug")).toMatch(/"places":\["at .*output\.test\.ts/);
  expect(lineAt("debug")).not.toContain("a value");
  expect(lineAt("info")).toContain("key=\uFFFD[8mhidden");
  expect(lineAt("info", false)).toContain(String.raw`"key":"\u001b[8mhidden"`);
});
