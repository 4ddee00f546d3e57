import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

const file = new URL("../src/crash-point.ts", import.meta.url).href;

/** A process that says before each step where it is: `before_send after_send before_send after_send end`. */
function walk(crashAt?: string) {
  const program = `
    const { crashPoint } = await import(${JSON.stringify(file)});
    const { writeSync } = await import("node:fs");
    for (const step of ["before_send", "after_send", "before_send", "after_send"]) {
      writeSync(1, step + " ");
      crashPoint(step);
    }
    writeSync(1, "end");`;
  const { PERSON_ETL_CRASH_AT: _, ...rest } = process.env;
  const env = crashAt === undefined ? rest : { ...rest, PERSON_ETL_CRASH_AT: crashAt };
  const { stdout, signal, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    env,
    encoding: "utf8",
  });
  return { said: stdout, signal, status };
}

const untouched = { said: "before_send after_send before_send after_send end", signal: null, status: 0 };

test("a step boundary does nothing without a requested crash", () => {
  expect(walk()).toEqual(untouched);
});

test.each(["before_commit", "after_send:3", "after_send:0", "after", ""])(
  "a crash at %j, which isn't reached, does nothing",
  (spec) => {
    expect(walk(spec)).toEqual(untouched);
  },
);

test("the process dies at once at the step that is named", () => {
  expect(walk("after_send")).toEqual({ said: "before_send after_send ", signal: "SIGKILL", status: null });
});

test("a count names one of several times that a step is reached", () => {
  expect(walk("before_send:2")).toEqual({
    said: "before_send after_send before_send ",
    signal: "SIGKILL",
    status: null,
  });
});
