import type { FeedCommit } from "../feeds/feed-commit.ts";

/** Result of each job's latest feed commit, returned again when that commit is retried. */
export interface LatestCommits<Memory> {
  /** Stored result of this commit; null at the first attempt. */
  find(commit: FeedCommit): Memory | null;
  keep(commit: FeedCommit, memory: Memory): void;
}

/** Creates an empty store. One result per job is enough: a job makes one commit at a time. */
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
