import { afterAll } from "vitest";

const steps: (() => Promise<unknown> | void)[] = [];

/** Does this after the last test of the file: unlike `onTestFinished` it works in tests that run side by side. */
export function atEnd(step: () => Promise<unknown> | void): void {
  steps.push(step);
}

afterAll(async () => {
  for (let step = steps.pop(); step; step = steps.pop()) await step();
});
