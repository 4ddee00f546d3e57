/** Formats a whole number with thousands separators: `15,000`. */
export function count(value: number): string {
  return value.toFixed(0).replace(/\B(?=(?:\d{3})+$)/gu, ",");
}

/** `1 record`, `15,000 records`. */
export function countText(value: number, singular: string, plural = `${singular}s`): string {
  return `${count(value)} ${value === 1 ? singular : plural}`;
}

/** Formats a size: `0.3 MB`, `1,024 MB`. */
export function megabytes(bytes: number): string {
  const value = bytes / 1024 ** 2;
  return `${value < 10 ? value.toFixed(1) : count(value)} MB`;
}

/** Age of an instant: `3 min ago`; `never` for null. */
export function ago(instant: string | null, nowMs: number): string {
  if (instant === null) return "never";
  const seconds = Math.max(0, (nowMs - Date.parse(instant)) / 1000);
  if (seconds < 60) return "just now";
  const units = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ] as const;
  const [size, unit] = units.find(([size]) => seconds >= size) ?? units[2];
  return `${count(Math.floor(seconds / size))} ${unit} ago`;
}

/** Instant to the minute: `2026-11-21 04:00 UTC`. */
export function timeText(instant: string): string {
  return `${instant.slice(0, 16).replace("T", " ")} UTC`;
}

/** Time until an instant: `in 14 h`. */
export function ahead(instant: string, nowMs: number): string {
  const minutes = Math.max(0, Math.ceil((Date.parse(instant) - nowMs) / 60_000));
  if (minutes < 60) return `in ${minutes} min`;
  return minutes < 48 * 60 ? `in ${Math.floor(minutes / 60)} h` : `in ${Math.floor(minutes / 1440)} d`;
}

/** Formats a percentage: `85.2%`; `–` if the whole is 0. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(1)}%`;
}

/** Duration as text: `0.4 s`, `42 s`, `3 min 20 s`, `2 h 5 min`, `90 d`. */
export function durationText(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return join(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return join(Math.floor(whole / 3600), "h", Math.round((whole % 3600) / 60), "min");
  return join(Math.floor(whole / 86_400), "d", Math.round((whole % 86_400) / 3600), "h");
}

function join(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}
