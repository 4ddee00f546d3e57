import { afterAll } from "vitest";
import { runSteps } from "../cli/support/at-end.ts";

// As a setup file this runs for each test file; modules that files of one process share are loaded once only.
afterAll(runSteps);
