import { FixConfigurationError } from "../errors.ts";

/** Header with the seed, in every response of the sandbox and of no other service. */
export const SANDBOX_HEADER = "person-etl-sandbox";

/** Mark of a response that names a sandbox without a usable seed. */
export const UNKNOWN_SEED = "unknown";

/** Reads the mark: the seed of the sandbox that sent a response, {@link UNKNOWN_SEED}, or null for another service. */
export function readMark(value: string | readonly string[] | undefined): string | null {
  if (value === undefined) return null;
  const [first = ""] = (typeof value === "string" ? value : value.join(",")).split(",");
  return /^\d{1,10}$/u.test(first.trim()) ? first.trim() : UNKNOWN_SEED;
}

/** Result of a service that must not add to this warehouse; it was received, and may have been billed. */
export class AnotherServiceError extends FixConfigurationError {
  readonly status: number;

  constructor(origin: string, mark: string | null, status: number) {
    const now = mark === null ? "is not the sandbox" : `is a sandbox (seed ${mark}), not the service`;
    super(
      "another_service",
      `The service at ${origin} ${now} that filled the warehouse. Its response was not stored. Check service.base_url.`,
    );
    this.status = status;
  }
}

/** Error for a sandbox whose mark has no usable seed, so that it can't be compared. */
export function unusableMark(origin: string): FixConfigurationError {
  return new FixConfigurationError(
    "another_service",
    `The service at ${origin} says that it is a sandbox, but not which one: its header ${SANDBOX_HEADER} is not a seed. ` +
      "Nothing was stored. Check service.base_url, and proxies that change headers.",
  );
}
