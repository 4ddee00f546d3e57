import { MultiBar, type SingleBar } from "cli-progress";
import type { Progress } from "../jobs/services.ts";
import { printable } from "./printable.ts";
import { count, durationText } from "../figures.ts";
import { wrapLines } from "./wrap.ts";

/** Progress on a terminal. */
export interface ProgressBars extends Progress {
  /** Writes a printable line above the bars, without a line end. */
  print(line: string): void;
  /** True while bars are visible. */
  readonly isShowing: boolean;
  /** Hides the bars to allow other output; the next start shows them again. */
  pause(): void;
}

/** Below this width, only the numbers are shown. */
const NARROW_COLUMNS = 72;
const BAR_COLUMNS = 24;

interface Payload {
  readonly job: string;
  readonly label: string;
  readonly matched: number | null;
  readonly rejected: number | null;
  readonly startedAtMs: number;
}

/** Creates progress bars: one line per sending job, and a final line after its end. */
export function createProgressBars(stream: NodeJS.WriteStream): ProgressBars {
  let screen: MultiBar | null = null;
  const bars = new Map<string, { bar: SingleBar; payload: Payload; value: number; total: number }>();

  const widthOf = () => stream.columns ?? 80;

  function show(): MultiBar {
    screen ??= new MultiBar({
      stream,
      fps: 5,
      hideCursor: true,
      gracefulExit: false,
      clearOnComplete: true,
      linewrap: false,
      format: (_options, params, payload: Payload) =>
        renderBar(payload, params.value, params.total, widthOf()),
    });
    return screen;
  }

  function hide(): void {
    if (!screen) return;
    // Flush buffered lines first.
    screen.update();
    screen.stop();
    screen = null;
  }

  function print(line: string): void {
    const clean = wrapLines(line, widthOf());
    if (screen) screen.log(`${clean}\n`);
    else stream.write(`${clean}\n`);
  }

  return {
    print,
    get isShowing() {
      return screen !== null;
    },
    pause: hide,
    start(job, total, label) {
      const payload = { job, label, matched: null, rejected: null, startedAtMs: performance.now() };
      bars.set(job, { bar: show().create(total, 0, payload), payload, value: 0, total });
    },
    advance(job, by, figures) {
      const entry = bars.get(job);
      if (!entry) return;
      entry.value += by;
      entry.payload = { ...entry.payload, ...figures };
      entry.bar.update(entry.value, entry.payload);
    },
    note(_job, text) {
      print(printable(text));
    },
    end(job) {
      const entry = bars.get(job);
      if (!entry) return;
      bars.delete(job);
      print(renderBar(entry.payload, entry.value, entry.total, widthOf()));
      screen?.remove(entry.bar);
      if (bars.size === 0) hide();
    },
  };
}

/** Formats one line: name, bar, percentage, counts, speed, time left. */
export function renderBar(payload: Payload, value: number, total: number, widthColumns: number): string {
  const share = total === 0 ? 1 : Math.min(1, value / total);
  const seconds = Math.max(0.001, (performance.now() - payload.startedAtMs) / 1000);
  const speed = value / seconds;
  const counted = value > total ? count(value) : `${count(value)} of ${count(total)}`;
  const figures = `${`${Math.floor(share * 100)} %`.padStart(5)}  ${counted}`;
  if (widthColumns < NARROW_COLUMNS)
    return `${payload.job} ${figures}`.slice(0, Math.max(1, widthColumns - 1));
  const full = Math.round(share * BAR_COLUMNS);
  const bar = "█".repeat(full) + "░".repeat(BAR_COLUMNS - full);
  const left =
    speed > 0 && value < total ? `${durationText((total - value) / speed)} left` : durationText(seconds);
  const parts = [
    `${payload.job}  ${bar} ${figures}`,
    left,
    ...(payload.matched === null ? [] : [`matched ${count(payload.matched)}`]),
    ...(payload.rejected === null || payload.rejected === 0 ? [] : [`rejected ${count(payload.rejected)}`]),
    `${count(speed)}/s`,
  ];
  // Leaves out what doesn't fit, instead of cutting a number.
  while (parts.length > 1 && parts.join("  ").length >= widthColumns) parts.pop();
  return parts.join("  ").slice(0, widthColumns - 1);
}
