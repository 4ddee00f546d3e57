import { type FileHandle, open } from "node:fs/promises";
import { listGroups } from "../person-groups.ts";
import type { LoadSpec, LookupAnswer, LookupReject } from "../warehouse.ts";
import { answerLine, rejectLine } from "./staged-lines.ts";
import type { StagedPerson } from "./staged-person.ts";

/** What is known of the lines of a file: it spares a commit the statements for what isn't there. */
export interface FileFacts {
  readonly lines: number;
  readonly bytes: number;
  readonly answers: number;
  readonly persons: number;
  readonly rejects: number;
  /** Of each list of a person whether anybody has rows in it. */
  readonly filled: readonly boolean[];
  readonly hasRepeated: boolean;
  readonly hasAliases: boolean;
  readonly hasRejectedBefore: boolean;
}

/** The lines of one commit, on disk. */
export interface CommitFile {
  readonly path: string;
  readonly facts: FileFacts;
  /** Appends lines. @param callId the call that the rejects stand and fall with. */
  write(
    answers: readonly LookupAnswer[],
    rejects: readonly LookupReject[],
    callId: string | null,
  ): Promise<void>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** Bytes that wait in memory at most. */
const BUFFER_BYTES = 1024 * 1024;

/** Opens a file that nobody else may read; it is made with the first line. */
export function openCommitFile(path: string, spec: LoadSpec): CommitFile {
  let handle: FileHandle | null = null;
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  const pids = new Set<string>();
  const facts = {
    lines: 0,
    bytes: 0,
    answers: 0,
    persons: 0,
    rejects: 0,
    filled: listGroups.map(() => false),
    hasRepeated: false,
    hasAliases: false,
    hasRejectedBefore: false,
  };

  async function flush(): Promise<void> {
    if (waiting.length === 0) return;
    handle ??= await open(path, "w", 0o600);
    const lines = waiting;
    waiting = [];
    waitingBytes = 0;
    await handle.writev(lines);
  }

  function append(line: Buffer): void {
    waiting.push(line);
    waitingBytes += line.length;
    facts.lines += 1;
    facts.bytes += line.length;
  }

  function noteAnswer({ record, servicePid, person }: LookupAnswer): void {
    facts.answers += 1;
    facts.hasRejectedBefore ||= record.rows.some(({ priorOutcome }) => priorOutcome === "rejected");
    facts.hasAliases ||= record.sentPid !== null && servicePid !== null && record.sentPid !== servicePid;
    if (person === null) return;
    facts.persons += 1;
    facts.hasRepeated ||= pids.has(person.pid);
    pids.add(person.pid);
    // Prepared persons come from this warehouse's own preparePerson, which is stagePerson.
    for (const [i, isFilled] of (person as StagedPerson).filled.entries()) facts.filled[i] ||= isFilled;
  }

  return {
    path,
    facts,
    async write(answers, rejects, callId) {
      for (const answer of answers) {
        noteAnswer(answer);
        append(answerLine(spec, answer, facts.lines));
      }
      for (const reject of rejects) {
        facts.rejects += 1;
        append(rejectLine(reject, facts.lines, callId));
      }
      if (waitingBytes > BUFFER_BYTES) await flush();
    },
    async close() {
      await flush();
      const open = handle;
      handle = null;
      await open?.close();
    },
  };
}
