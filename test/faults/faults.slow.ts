import { expect, test } from "vitest";
import { allFaults, IN_THE_MIDDLE } from "./disturbances.ts";
import { disturb } from "./fault-matrix.ts";

// `npm run test:faults` tries the rest of what may come in the middle, and every fault on its own at 1, 10 and 50 %.

test.each([...IN_THE_MIDDLE.slice(0, 1), allFaults(0.03)])(
  "after $name the tables are those of an undisturbed run, and the books are true",
  async (disturbance) => {
    expect((await disturb(disturbance)).defects).toEqual([]);
  },
  240_000,
);
