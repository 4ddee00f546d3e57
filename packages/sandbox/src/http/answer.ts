/** An error answer (section 7). */
export interface Refusal {
  readonly kind: "refusal";
  readonly status: number;
  /** Stable code of section 7.2, if it has one. */
  readonly code: string | null;
  readonly message: string;
  /** A list of `{loc, type}` for validation failures, an object for capacity failures. */
  readonly details?: readonly RefusedField[] | Readonly<Record<string, number>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Body instead of JSON. */
  readonly html?: string;
  /** Name of the fault that refused the request. */
  readonly fault?: string;
}

/** One problem of a request: its path, beginning with `body`, `query` or `path`, and a type such as `string_too_long`. */
export interface RefusedField {
  readonly loc: readonly string[];
  readonly type: string;
}

/** Place of the list of results in a body. */
export const RESULTS = "sandbox results";

/** Members of most success answers (section 2.1). */
interface Envelope {
  readonly api_request_id: string;
  readonly request_completed_at: string;
}

export interface Results {
  readonly kind: "results";
  /** JSON texts of the results, which faults change. */
  readonly results: readonly string[];
  /** Body around the results; the envelope of section 2.1 by default. */
  readonly body?: (results: typeof RESULTS, envelope: Envelope) => object;
  /** HTTP status; 200 by default. */
  readonly status?: number;
  /** Records of person search for its usage; those of the request by default. */
  readonly delivered?: number;
  /** 0 by default. */
  readonly matched?: number;
  /** 0 by default. */
  readonly billed?: number;
  /** Usable records; all of the request by default. */
  readonly resolvable?: number;
}

export type Outcome = Refusal | Results;

export function refuse(
  status: number,
  code: string | null,
  message: string,
  more: Partial<Pick<Refusal, "details" | "headers" | "html">> = {},
): Refusal {
  return { kind: "refusal", status, code, message, ...more };
}

/** The 429 of section 7.2. */
export function tooFast(headers: Readonly<Record<string, string>> = {}): Refusal {
  return refuse(429, "rate_limit_reached", "Request rate limit or plan quota exceeded.", { headers });
}

/** The 402 of section 7.2, with its details. */
export function outOfCapacity(available: number, requested: number): Refusal {
  return refuse(402, "insufficient_record_capacity", "Plan allowance and overage cannot cover the records.", {
    details: {
      records_available: available,
      allowance_records_available: available,
      overage_records_available: 0,
      records_requested: requested,
    },
  });
}

/** The 402 of exhausted credits. */
export function outOfCredits(remaining: number): Refusal {
  return refuse(402, "insufficient_credits", "Credits are exhausted.", {
    details: { records_remaining: remaining },
  });
}

/** The 404 of what doesn't exist or belongs to another organization. */
export function notFound(thing: "resource" | "segment" | "search" | "job"): Refusal {
  return refuse(404, "not_found", `There is no such ${thing}.`);
}

export function textsOf(results: readonly unknown[]): readonly string[] {
  return results.map((result) => JSON.stringify(result));
}

/** An answer without the envelope and a list. */
export function plainBody(body: object): Results {
  return { kind: "results", results: [], body: () => body };
}

/** A documented shape of error bodies (section 7.1). */
export interface ErrorShape {
  readonly form: "current" | "legacy" | "status_code";
  /** Adds the deprecated `statusCode` and `body`. */
  readonly deprecatedFields: boolean;
}

export function errorBody(refusal: Refusal, apiRequestId: string, shape: ErrorShape): string {
  const { status, code, message, details } = refusal;
  const forms = {
    current: { ...(code === null ? {} : { code }), message, api_request_id: apiRequestId, details },
    legacy: { api_request_id: apiRequestId, error_message: message },
    status_code: { error: message, status_code: status },
  };
  const deprecated = { statusCode: status, body: { error_message: message } };
  return JSON.stringify({ ...forms[shape.form], ...(shape.deprecatedFields ? deprecated : {}) });
}
