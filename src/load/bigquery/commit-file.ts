import { type Told, toldByAnswer, toldByReject } from "../keep-out.ts";
import { listGroups } from "../person-groups.ts";
import type { LoadSpec, LookupAnswer, LookupReject, PreparedPerson } from "../warehouse.ts";
import { openLineFile } from "./line-file.ts";
import { createSeenTexts } from "./seen-texts.ts";
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
  /** What each line says of people (`Told`), line by line. */
  readonly toldPath: string;
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

/** Opens files that nobody else may read; they are made with the first line. */
export function openCommitFile(path: string, toldPath: string, spec: LoadSpec): CommitFile {
  const lines = openLineFile(path);
  const told = openLineFile(toldPath);
  const notePid = createSeenTexts();
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

  function append(line: Buffer, says: Told): void {
    lines.append(line);
    told.append(Buffer.from(`${JSON.stringify(says)}\n`));
    facts.lines += 1;
    facts.bytes += line.length;
  }

  function noteAnswer({ record, servicePid, person }: LookupAnswer): void {
    facts.answers += 1;
    facts.hasRejectedBefore ||= record.rows.some(({ priorOutcome }) => priorOutcome === "rejected");
    facts.hasAliases ||= record.sentPid !== null && servicePid !== null && record.sentPid !== servicePid;
    if (person === null || spec.type !== "enrich") return;
    facts.persons += 1;
    if (notePid(person.pid)) facts.hasRepeated = true;
    for (const [i, isFilled] of personOf(person).filled.entries()) facts.filled[i] ||= isFilled;
  }

  return {
    path,
    toldPath,
    facts,
    async write(answers, rejects, callId) {
      for (const answer of answers) {
        noteAnswer(answer);
        const person = answer.person && personOf(answer.person);
        append(answerLine(spec, answer, facts.lines), toldByAnswer(spec, answer, person));
      }
      for (const reject of rejects) {
        facts.rejects += 1;
        append(rejectLine(reject, facts.lines, callId), toldByReject(spec, reject));
      }
      await lines.settle();
      await told.settle();
    },
    async close() {
      await lines.close();
      await told.close();
    },
  };
}

/** Prepared persons come from this warehouse's own preparePerson, which is stagePerson. */
function personOf(person: PreparedPerson): StagedPerson {
  return person as StagedPerson;
}
