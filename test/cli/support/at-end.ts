const steps: (() => Promise<unknown> | void)[] = [];

/** Runs after the last test of the file; unlike `onTestFinished`, it works in concurrent tests. */
export function atEnd(step: () => Promise<unknown> | void): void {
  steps.push(step);
}

/** Runs all steps, the last one first. */
export async function runSteps(): Promise<void> {
  for (let step = steps.pop(); step; step = steps.pop()) await step();
}
