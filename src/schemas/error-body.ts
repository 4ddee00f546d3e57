/** One error of a failed validation. */
export interface ErrorDetail {
  /** Path in the request body, each part as text (`["body", "records", "3", "emails"]`); empty if not stated. */
  readonly loc: readonly string[];
  /** Kind of error (`string_too_long`); null if not stated. */
  readonly type: string | null;
}

/** Error body in any of the shapes of section 7.1, without its message, which may quote the request. */
export interface ErrorBody {
  readonly code: string | null;
  readonly apiRequestId: string | null;
  readonly details: readonly ErrorDetail[];
  /** Remaining records of the plan, from a 402; null if not stated. */
  readonly recordsAvailable: number | null;
  /** Figures of a 402, by their name in the interface; null without any. */
  readonly figures: Readonly<Record<string, number>> | null;
}

/** Names of the figures of a 402 (section 7.2). */
const FIGURES = [
  "records_available",
  "allowance_records_available",
  "overage_records_available",
  "records_requested",
  "records_remaining",
] as const;

type Json = Readonly<Record<string, unknown>>;

function isStated(value: unknown): boolean {
  if (typeof value === "string") return value.trim() !== "";
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}
/** Codes that mean no error: a word, or a status below 400. */
const SAYS_WELL = /^(?:ok|success\w*|[1-3]\d\d)$/iu;
const isErrorStatus = (value: unknown): boolean => Number(value) >= 400;

/** True if an envelope is or carries an error (section 7.1); with status 200 it must not count as an empty answer. */
export function hasError(envelope: Json): boolean {
  const own = (key: string): unknown => (Object.hasOwn(envelope, key) ? envelope[key] : null);
  if (isStated(own("error")) || isStated(own("error_message"))) return true;
  if (isErrorStatus(own("statusCode")) || isErrorStatus(own("status_code"))) return true;
  const code = own("code");
  return isErrorStatus(code) || (isStated(code) && !SAYS_WELL.test(String(code)));
}

function asObject(value: unknown): Json | null {
  if (typeof value === "string" && value.startsWith("{")) {
    try {
      return asObject(JSON.parse(value));
    } catch {
      return null;
    }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return { ...value };
}

/** Machine-readable words only; drops anything that could be personal data. */
const WORD = /^[\w.-]{1,64}$/u;

function readWord(value: unknown): string | null {
  return typeof value === "string" && WORD.test(value) && !/^[\d.-]+$/u.test(value) ? value : null;
}

/** Reads an ID of the service; null for free text, which could be personal data. */
export function readId(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && /^[\w.:-]{1,200}$/u.test(value) ? value : null;
}

/** Splits `["body", 3]`, `"body.records[3].emails"` and `"records/3"` into parts. */
function readLoc(value: unknown): readonly string[] {
  const parts: readonly unknown[] = Array.isArray(value) ? value : [value];
  return parts.flatMap((part) => {
    if (typeof part === "number") return [String(part)];
    return typeof part === "string" ? part.split(/[.[\]/'"]+/u).filter((p) => p !== "") : [];
  });
}

function readDetails(value: unknown): ErrorDetail[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry) => {
    const detail = asObject(entry);
    return detail ? [{ loc: readLoc(detail["loc"]), type: readWord(detail["type"]) }] : [];
  });
}

function readCount(value: unknown): number | null {
  const count = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof count === "number" && Number.isFinite(count) ? Math.max(0, Math.floor(count)) : null;
}

function firstOf<T>(sources: readonly Json[], key: string, read: (value: unknown) => T | null): T | null {
  for (const source of sources) {
    const found = read(source[key]);
    if (found !== null) return found;
  }
  return null;
}

type Figures = Readonly<Partial<Record<(typeof FIGURES)[number], number>>>;

function readFigures(sources: readonly Json[]): Figures {
  return Object.fromEntries(
    FIGURES.flatMap((name) => {
      const figure = firstOf(sources, name, readCount);
      return figure === null ? [] : [[name, figure]];
    }),
  );
}

/** Records that figures of a 402 leave; null if they don't state it. */
export function availableOf(figures: Figures): number | null {
  const { allowance_records_available: allowance, overage_records_available: overage } = figures;
  const sum = allowance === undefined && overage === undefined ? null : (allowance ?? 0) + (overage ?? 0);
  return figures.records_available ?? figures.records_remaining ?? sum;
}

/** Reads a parsed error body of any shape; missing fields and fields of another type are null or empty. */
export function readErrorBody(body: unknown): ErrorBody {
  const top = asObject(body) ?? {};
  const nested = asObject(top["body"]) ?? {};
  const inner = asObject(top["error"]) ?? {};
  const sources = [top, nested, inner];
  const containers = sources.flatMap((source) => [source, asObject(source["details"]) ?? {}]);
  const detailLists = sources.flatMap((source) => [source["details"], source["detail"], source["errors"]]);
  const figures = readFigures(containers);
  return {
    code: firstOf(sources, "code", readWord),
    apiRequestId: firstOf(sources, "api_request_id", readId),
    details: detailLists.map(readDetails).find((details) => details.length > 0) ?? [],
    recordsAvailable: availableOf(figures),
    figures: Object.keys(figures).length === 0 ? null : figures,
  };
}
