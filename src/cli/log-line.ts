import { styleText } from "node:util";

const WIDTH = 200;

/** Formats a log line for a terminal: time, event, and fields as `name=value`. */
export function renderLogLine(json: string): string {
  const { level, time, event, pid: _pid, ...fields } = JSON.parse(json);
  const clock = typeof time === "string" ? time.slice(11, 19) : "";
  const details = Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
  const sentence = `${String(event).replaceAll("_", " ")}${details === "" ? "" : ` ${dim(details.slice(0, WIDTH))}`}`;
  if (level === "error" || level === "fatal") return `${dim(clock)} ${paint("red", "error")} ${sentence}`;
  if (level === "warn") return `${dim(clock)} ${paint("yellow", "warning")} ${sentence}`;
  return `${dim(clock)} ${sentence}`;
}

function dim(text: string): string {
  return paint("dim", text);
}

function paint(style: "dim" | "red" | "yellow", text: string): string {
  return styleText(style, text, { stream: process.stderr });
}
