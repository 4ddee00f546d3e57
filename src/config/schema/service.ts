import { z } from "zod";
import { secret, serviceUrl } from "./addresses.ts";
import { flag, positiveNumber, wholeNumber } from "./described.ts";

/** Paths of the service's endpoints (interface section 4); the ones with an id in them stand below their prefix. */
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

const limit = z.strictObject({ requests_per_second: positiveNumber() });

/** `service`: which service is called, with which key, how fast. */
export const service = z.strictObject({
  base_url: serviceUrl(),
  api_key: secret().optional(),
  user_api_key: secret().optional(),
  concurrency: wholeNumber(1, 64).default(8),
  requests_per_second: positiveNumber().optional(),
  limits: z
    .strictObject(Object.fromEntries(endpointPaths.map((path) => [path, limit.optional()])))
    .optional(),
  allow_insecure: flag().default(false),
});

/** `sandbox`: the population behind `base_url: sandbox`. */
export const sandbox = z.strictObject({
  seed: wholeNumber(0, 2 ** 32 - 1).default(1),
  people: wholeNumber(1, 100_000_000).default(1_000_000),
  input_rows: wholeNumber(1, 100_000_000).default(15_000),
});
