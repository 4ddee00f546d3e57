import type { ResultList } from "./result-list.ts";

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

/** One problem of a request. */
export interface RefusedField {
  /** Path, beginning with `body` or `query`. */
  readonly loc: readonly string[];
  /** `missing`, `string_type`, `string_too_long`, … */
  readonly type: string;
}

/** A success answer. */
export interface Results {
  readonly kind: "results";
  readonly results: ResultList;
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
  /**
   * Text before and after the list, given the members for the request's id and completion. The envelope of section 2.1 by
   * default.
   */
  readonly wrap?: (id: string, completed: string) => readonly [before: string, after: string];
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

/** One of the documented shapes of an error body (section 7.1). */
export interface ErrorShape {
  readonly form: "current" | "legacy" | "status_code";
  /** Adds the deprecated `statusCode` and `body`. */
  readonly deprecatedFields: boolean;
}

/** JSON body of an error answer. */
export function errorBody(refusal: Refusal, apiRequestId: string, shape: ErrorShape): string {
  const { status, code, message, details } = refusal;
  const forms = {
    current: {
      ...(code === null ? {} : { code }),
      message,
      api_request_id: apiRequestId,
      ...(details ? { details } : {}),
    },
    legacy: { api_request_id: apiRequestId, error_message: message },
    status_code: { error: message, status_code: status },
  } satisfies Record<ErrorShape["form"], object>;
  const deprecated = { statusCode: status, body: { error_message: message } };
  return JSON.stringify({ ...forms[shape.form], ...(shape.deprecatedFields ? deprecated : {}) });
}
