import { expect, test } from "vitest";
import { createLogger, createScrubber } from "../../src/cli/output.ts";

/** Line of an unexpected error on a terminal. */
function lineAt(level: "info" | "debug"): string {
  const lines: string[] = [];
  const sink = (line: string) => void lines.push(line);
  const log = createLogger({ level, isForPeople: true, scrubber: createScrubber(), sink });
  log.error({ figures: "x".repeat(300), error: new RangeError("a value") }, "job_failed");
  return lines.join("\n");
}

test("a line on a terminal is cut, but at level debug has the places of an unexpected error", () => {
  expect(lineAt("info").length).toBeLessThan(300);
  expect(lineAt("debug")).toMatch(/"places":\["at .*logger\.test\.ts/);
  expect(lineAt("debug")).not.toContain("a value");
});

test("no control sequence in a value reaches the terminal, and none a file", () => {
  const lines: string[] = [];
  const scrubber = createScrubber();
  for (const isForPeople of [true, false]) {
    const sink = (line: string) => void lines.push(line);
    createLogger({ level: "info", isForPeople, scrubber, sink }).info(
      { key: "\u001b[8m\u009b8mhidden" },
      "done",
    );
  }
  expect(lines).toEqual([
    expect.stringContaining("key=\uFFFD[8m\uFFFD8mhidden"),
    expect.stringContaining(String.raw`"key":"\u001b[8m\u009b8mhidden"`),
  ]);
});
