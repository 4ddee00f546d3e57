import type { Section } from "./view.ts";
import { showCost } from "./sections/cost.ts";
import { showCoverage } from "./sections/coverage.ts";
import { showDestinations } from "./sections/destinations.ts";
import { showDrift } from "./sections/drift.ts";
import { showJobs } from "./sections/jobs.ts";
import { showRejects } from "./sections/rejects.ts";
import { showRunning } from "./sections/running.ts";
import { showRuns } from "./sections/runs.ts";
import { showSegments } from "./sections/segments.ts";
import { showUsage } from "./sections/usage.ts";

/** Sections of the page, in its order. */
export const sections: readonly Section[] = [
  { id: "now", title: "Running now", show: showRunning },
  { id: "jobs", title: "Jobs", show: showJobs },
  { id: "runs", title: "Last runs", show: showRuns },
  { id: "cost", title: "Cost and budgets", show: showCost },
  { id: "usage", title: "Usage and match rates", show: showUsage },
  { id: "coverage", title: "Coverage", show: showCoverage },
  { id: "segments", title: "Segments and deaths", show: showSegments },
  { id: "rejects", title: "Rejects", show: showRejects },
  { id: "destinations", title: "Destinations", show: showDestinations },
  { id: "drift", title: "Schema drift", show: showDrift },
];
