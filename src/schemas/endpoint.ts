import type { z } from "zod";
import type { RecordDeclaration } from "./record.ts";

/** A call that takes a batch of records and answers one result for each (section 4.7). */
export interface LookupEndpoint {
  /** Method and path, as the ledger and `schema_drift` name it. */
  readonly name: string;
  readonly method: "POST";
  readonly path: string;
  /** Section of the service's interface that describes it. */
  readonly section: string;
  /** Most records in one call (section 8). */
  readonly maxRecords: number;
  /** Each matched (for e-mail validation: each) record costs money. */
  readonly billed: boolean;
  /** How a result finds its record. */
  readonly pairing: "record_id" | "position_and_address";
  /** A whole request body, checked strictly; the sandbox refuses what doesn't pass. */
  readonly request: z.ZodType;
  /** One result. */
  readonly result: RecordDeclaration;
}
