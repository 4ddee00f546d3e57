import type { list, show as showAudience, unlock } from "../src/cli/commands/audience.ts";
import type { check } from "../src/cli/commands/check.ts";
import type { reset, set, show as showCheckpoint } from "../src/cli/commands/checkpoint.ts";
import type { completion } from "../src/cli/commands/completion.ts";
import type { show as showConfig } from "../src/cli/commands/config.ts";
import type { costs } from "../src/cli/commands/costs.ts";
import type { drop as dropTrial } from "../src/cli/commands/drop.ts";
import type { erase } from "../src/cli/commands/erase.ts";
import type { explain } from "../src/cli/commands/explain.ts";
import type { init } from "../src/cli/commands/init.ts";
import type { migrate } from "../src/cli/commands/migrate.ts";
import type { plan } from "../src/cli/commands/plan.ts";
import type { publish } from "../src/cli/commands/publish.ts";
import type { drop, list as listRejects, retry } from "../src/cli/commands/rejects.ts";
import type { run } from "../src/cli/commands/run.ts";
import type { list as listRuns, show as showRun } from "../src/cli/commands/runs.ts";
import type { search } from "../src/cli/commands/search.ts";
import type { status } from "../src/cli/commands/status.ts";
import type { Problem } from "../src/errors.ts";

/** Document that a command prints with `--json`, as the return type of its function states. */
type DocumentOf<Run extends (...args: never) => Promise<{ readonly document: object | null }>> = NonNullable<
  Awaited<ReturnType<Run>>["document"]
>;

/** Documents of all commands; commands that stay up print theirs when they are ready. */
export interface CommandDocuments {
  readonly audience_list: DocumentOf<typeof list>;
  readonly audience_show: DocumentOf<typeof showAudience>;
  readonly audience_unlock: DocumentOf<typeof unlock>;
  readonly check: DocumentOf<typeof check>;
  readonly checkpoint_reset: DocumentOf<typeof reset>;
  readonly checkpoint_set: DocumentOf<typeof set>;
  readonly checkpoint_show: DocumentOf<typeof showCheckpoint>;
  readonly completion: DocumentOf<typeof completion>;
  readonly config_show: DocumentOf<typeof showConfig>;
  readonly costs: DocumentOf<typeof costs>;
  readonly database: { readonly warehouse: string; readonly how_to_connect: readonly string[] };
  readonly drop: DocumentOf<typeof dropTrial>;
  readonly erase: DocumentOf<typeof erase>;
  readonly explain: DocumentOf<typeof explain>;
  readonly init: DocumentOf<typeof init>;
  readonly migrate: DocumentOf<typeof migrate>;
  readonly plan: DocumentOf<typeof plan>;
  readonly publish: DocumentOf<typeof publish>;
  readonly rejects_drop: DocumentOf<typeof drop>;
  readonly rejects_list: DocumentOf<typeof listRejects>;
  readonly rejects_retry: DocumentOf<typeof retry>;
  readonly run: DocumentOf<typeof run>;
  readonly runs_list: DocumentOf<typeof listRuns>;
  readonly runs_show: DocumentOf<typeof showRun>;
  readonly sandbox: { readonly url: string; readonly port: number };
  readonly schedule: { readonly url: string; readonly jobs: readonly string[] };
  readonly search: DocumentOf<typeof search>;
  readonly status: DocumentOf<typeof status>;
  readonly ui: { readonly url: string };
}

/** Document of a failed command; those of `check`, `run` and some others have more keys. */
export interface Failed {
  readonly error: {
    /** See error-codes.md. */
    readonly code: string;
    readonly message: string;
    readonly problems?: readonly Problem[];
  };
}
