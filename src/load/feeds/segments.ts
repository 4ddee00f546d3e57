import type { Cell } from "../../schemas/convert.ts";
import type { FeedCommit } from "./feed-commit.ts";

/** Members as one or several answers showed them. */
export interface SeenMember {
  readonly servicePid: string;
  /** Instant; null where the service gave none. */
  readonly firstAddedAt: Cell;
  /** When the answer that showed it was completed. */
  readonly seenAt: string;
  /** What the service sent beyond the declared fields, as JSON text. */
  readonly extra: Cell;
}

/**
 * A span of `first_added_at`, both ends exclusive, of which one answer showed every member: who was first added within it and
 * is not among the members seen was none when the answer was completed. Of somebody whom another run has seen since, it says
 * nothing. Null for an end that is open.
 */
export interface ProvenSpan {
  readonly after: string | null;
  readonly before: string | null;
  readonly seenAt: string;
}

/** What is known of a segment's members at some moment. */
export interface MemberCounts {
  /** Rows of `segment_member` with `is_member`. */
  readonly living: number;
  /** All its rows. */
  readonly known: number;
}

/** What a commit of seen members did. */
export interface AddedMembers {
  readonly rowsWritten: number;
  /** People who were no known members: new ones, and those who came back. */
  readonly added: number;
  /** Seen rows of people who were erased; they are not stored. */
  readonly suppressed: number;
}

/** What a settlement found. */
export interface SettledMembers {
  readonly rowsWritten: number;
  readonly removed: number;
  /** Known members whom no answer showed, and whom no span proves gone. */
  readonly pending: number;
  /** Their `first_added_at`, distinct, newest first, null last; at most 1,000. */
  readonly pendingAt: readonly Cell[];
}

/** One reading of all pages of a segment. */
export interface MemberSweep {
  /** Nothing was known of the segment when the sweep was begun. */
  readonly isFirst: boolean;
  /**
   * Takes over members that answers showed, and remembers that they were seen. Who appears again after a removal, or although a
   * complete sweep at {@link SweepOptions.completeAt} hadn't shown them, is a member since the answer, others since
   * `first_added_at`. Of equal PIDs the last one counts.
   */
  add(commit: FeedCommit, members: readonly SeenMember[]): Promise<AddedMembers>;
  /** Records removals: known members whom no answer of this sweep showed, where a span proves them gone. */
  settle(commit: FeedCommit, spans: readonly ProvenSpan[]): Promise<SettledMembers>;
  /** Drops the list of who was seen; idempotent. */
  close(): Promise<void>;
}

/** What a sweep is about. */
export interface SweepOptions {
  readonly segmentId: string;
  /** Begin of the last sweep that showed everybody, ISO 8601; null where the table `segment` has to tell. */
  readonly completeAt: string | null;
}

/** What is known of a segment. */
export interface StoredSegment {
  readonly segmentId: string;
  readonly name: string | null;
  /** As the service last said; null where no answer did. */
  readonly currentSize: number | null;
  /** When its members were last looked at; null, like the next two, where nobody has. */
  readonly observedAt: string | null;
  readonly knownMembers: number | null;
  /** Members whom that look didn't show, and who were not proven to be gone. */
  readonly removalsPending: number | null;
}
