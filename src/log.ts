/** Logger: an event name, and fields that never contain personal data or secrets. */
export interface Log {
  debug(fields: object, event: string): void;
  info(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
