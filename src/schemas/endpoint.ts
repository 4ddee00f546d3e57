import type { z } from "zod";
import type { JsonObject } from "./flatten.ts";
import type { RecordDeclaration } from "./attempt.ts";

/** An endpoint that takes a batch of records and returns one result for each (section 4.7). */
export interface LookupEndpoint {
  /** Method and path, as in the ledger and `schema_drift`. */
  readonly name: string;
  readonly method: "POST";
  readonly path: string;
  /** Section of the service interface. */
  readonly section: string;
  /** Maximum records per call (section 8). */
  readonly maxRecords: number;
  /** True if each matched record (for e-mail validation: each record) is billed. */
  readonly billed: boolean;
  /** Field that pairs results with records. */
  readonly pairing: "record_id" | "position_and_address";
  /** Strict schema of a whole request body; the sandbox rejects anything else. */
  readonly request: z.ZodType;
  /** True for the result of a match, whether or not it has a PID. */
  readonly isMatch: (result: JsonObject) => boolean;
  /** One result. */
  readonly result: RecordDeclaration;
}
