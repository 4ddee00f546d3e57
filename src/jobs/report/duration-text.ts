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
