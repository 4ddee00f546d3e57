import type { Config, JobConfig } from "../config/config.ts";
import type { Db } from "../load/db/db.ts";
import { renewLinkView } from "../load/db/link-views.ts";
import { describeKey } from "../load/inputs/describe-key.ts";
import { linkView, linkViewName } from "../schemas/views/link-input.ts";
import { sourcesOf } from "./verify-inputs.ts";

/**
 * Creates a view of each input that the jobs read, with the types of its key. Inputs whose names are too long for a view have none;
 * views of former inputs stay, because other objects may depend on them.
 */
export async function linkInputs(config: Config, db: Db, jobs: readonly JobConfig[]): Promise<void> {
  for (const source of sourcesOf(config, jobs)) {
    if (source.isPush) continue;
    const input = await source.open();
    if (linkViewName(input.name) === null) continue;
    await renewLinkView({ db, input: input.name }, linkView(input.name, await describeKey(db, input)));
  }
}
