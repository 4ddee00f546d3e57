/** Log levels, from most verbose to silent. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "silent"] as const;

export type LogLevel = (typeof logLevels)[number];

/** Logger: an event name, and fields that never contain personal data or secrets. */
export interface Log {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
