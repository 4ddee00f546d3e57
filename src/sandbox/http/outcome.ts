import type { ResultList } from "./result-list.ts";

/** What a route, a check or a fault decides; nothing here touches the wire. */

/** An error answer (section 7). */
export interface Refusal {
  readonly kind: "refusal";
  readonly status: number;
  /** Stable code of section 7.2; null for the answers that have none. */
  readonly code: string | null;
  readonly message: string;
  /** A list of `{loc, type}` for validation failures, an object for capacity failures. */
  readonly details?: readonly RefusedField[] | Readonly<Record<string, number>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Answered instead of JSON. */
  readonly html?: string;
}

/** One thing wrong with a request. */
export interface RefusedField {
  /** Where, from `body` on. */
  readonly loc: readonly string[];
  /** `missing`, `string_type`, `string_too_long`, … */
  readonly type: string;
}

/** A success answer. */
export interface Results {
  readonly kind: "results";
  readonly results: ResultList;
  readonly matched: number;
  readonly billed: number;
  /** Records that the service calls usable; absent: all of the request. */
  readonly resolvable?: number;
  /**
   * What stands before and after the list, given the request's id and the time of its completion, both as JSON texts.
   * Absent: the envelope of section 2.1.
   */
  readonly wrap?: (id: string, completed: string) => readonly [before: string, after: string];
}

/** What comes of a request. */
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

/** Which of the documented shapes an error body takes (section 7.1). */
export interface ErrorShape {
  readonly form: "current" | "legacy" | "status_code";
  /** Adds the deprecated `statusCode` and `body`. */
  readonly deprecatedFields: boolean;
}

/** The JSON body of an error answer. */
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
