import { z } from "zod";
import { secret, serviceUrl } from "./addresses.ts";
import { flag, positiveNumber, text, wholeNumber } from "./described.ts";
import { settings } from "./settings.ts";

/** Paths of the service's endpoints (interface section 4), without ids. */
export const endpointPaths = [
  "/v1/resolve",
  "/v2/validate_emails",
  "/v2/enrich",
  "/v2/segments/create",
  "/v2/segments/members",
  "/v2/segments/members/add",
  "/v2/segments/members/remove",
  "/v2/segments/signals/deaths",
  "/person-search/v0/search",
  "/person-search/v0/search-jobs",
  "/person-search/v0/contact-jobs",
  "/person-search/v0/usage",
  "/usage",
] as const;

const limit = settings({ requests_per_second: positiveNumber() });

/** Rate limits by endpoint path; each overrides `requests_per_second`. */
const limits = z
  .strictObject(Object.fromEntries(endpointPaths.map((path) => [path, limit.optional()])))
  .transform((byPath) =>
    Object.fromEntries(
      Object.entries(byPath).flatMap(([path, value]) =>
        value === undefined ? [] : [[path, value] as const],
      ),
    ),
  );

/** `service`: address, key and rates. */
export const service = settings({
  base_url: serviceUrl(),
  api_key: secret().optional(),
  /** Key of a user, required by asynchronous person search. */
  user_api_key: secret().optional(),
  /** PEM file of the authority that signed the service's certificate. */
  ca: text({ expects: "the path of a PEM file" }).optional(),
  /** Maximum calls in flight, for all jobs. */
  concurrency: wholeNumber(1, 64).default(8),
  requests_per_second: positiveNumber().optional(),
  limits: limits.prefault({}),
  allow_insecure: flag().default(false),
});

/** `sandbox`: population of `base_url: sandbox`, and its sample input tables. */
export const sandbox = settings({
  seed: wholeNumber(0, 2 ** 32 - 1).default(1),
  people: wholeNumber(1, 100_000_000).default(1_000_000),
  input_rows: wholeNumber(1, 100_000_000).default(15_000),
});
