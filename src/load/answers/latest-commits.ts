import type { FeedCommit } from "../feeds/feed-commit.ts";

/** What is remembered of each job's latest commit of a feed, so that a repetition of it tells what the first one did. */
export interface LatestCommits<Memory> {
  /** What was kept of this very commit; null when it is tried for the first time. */
  find(commit: FeedCommit): Memory | null;
  keep(commit: FeedCommit, memory: Memory): void;
}

/** Remembers nothing yet. A job makes one commit at a time, so the one before is over when the next one is begun. */
export function rememberCommits<Memory>(): LatestCommits<Memory> {
  const latest = new Map<string, { readonly commitId: string; readonly memory: Memory }>();
  return {
    find({ run, commitId }) {
      const found = latest.get(run.job);
      return found?.commitId === commitId ? found.memory : null;
    },
    keep: ({ run, commitId }, memory) => void latest.set(run.job, { commitId, memory }),
  };
}
