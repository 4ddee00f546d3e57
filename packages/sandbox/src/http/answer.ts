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
}

/** One problem of a request: its path, beginning with `body`, `query` or `path`, and a type such as `string_too_long`. */
export interface RefusedField {
  readonly loc: readonly string[];
  readonly type: string;
}

/** A success answer. */
export interface Results {
  readonly kind: "results";
  /** JSON texts of the results. */
  readonly items: readonly string[];
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
  /** Text around the items, given the members for the request's id and completion; the envelope of section 2.1 by default. */
  readonly frame?: (id: string, completed: string) => readonly [before: string, after: string];
}

/** Outcome of a request. */
export type Outcome = Refusal | Results;

/** Makes an error answer. */
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

/** An answer without the envelope. */
export function plainBody(body: object): Results {
  return { kind: "results", items: [], frame: () => [JSON.stringify(body), ""] };
}

/** An answer without the envelope: the members of `head`, then a list, then those of `rest`. */
export function listBody(head: object, name: string, items: readonly string[], rest: object = {}) {
  const before = `${JSON.stringify(head).slice(0, -1)},"${name}":[`;
  const end = JSON.stringify(rest).slice(1);
  const after = end === "}" ? "]}" : `],${end}`;
  return { kind: "results", items, frame: () => [before, after] } satisfies Results;
}

/** A documented shape of error bodies (section 7.1). */
export interface ErrorShape {
  readonly form: "current" | "legacy" | "status_code";
  /** Adds the deprecated `statusCode` and `body`. */
  readonly deprecatedFields: boolean;
}

/** JSON body of an error answer. */
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
