import { type RawBuilder, sql } from "kysely";
import { OWN_LIMITS } from "../../errors.ts";

/** True if a run did everything that it was allowed to: it succeeded, or ended at a cap or budget of the user. */
export function isSuccess(run: {
  readonly status: string;
  readonly limitedBy?: string | null | undefined;
}): boolean {
  return (
    run.status === "succeeded" ||
    (run.status === "limited" && OWN_LIMITS.some((own) => own === run.limitedBy))
  );
}

/** {@link isSuccess} for rows of `sync_run`. */
export const IS_SUCCESS: RawBuilder<boolean> = sql<boolean>`(status = 'succeeded'
  OR status = 'limited' AND limited_by = ANY(${[...OWN_LIMITS]}::text[]))`;
