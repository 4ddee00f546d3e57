/** How a field differs from its declaration. */
export type DriftKind = "unknown_field" | "unexpected_type";

/** One way in which answers of an endpoint differ from what is declared. */
export interface Drift {
  /** Method and path, `POST /v2/enrich`. */
  readonly endpoint: string;
  /** From the result record on, `[]` for lists: `address_history[].new_field`. */
  readonly path: string;
  readonly kind: DriftKind;
  /** JSON type seen last, or `nul_character`, `lone_surrogate`. */
  observedType: string;
  occurrences: number;
}

/** Counts what differs, by place and kind; bounded, so that a hostile answer can't fill memory or the table. */
export class DriftLog {
  static readonly maxEntries = 1000;
  /** Longer paths are cut: the path is part of a key, and indexes refuse long ones (Postgres: 2,704 bytes). */
  static readonly maxPathLength = 400;
  readonly #endpoint: string;
  readonly #entries = new Map<string, Drift>();

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  /** Notes one occurrence. */
  note(kind: DriftKind, fullPath: string, observedType: string): void {
    const isLong = fullPath.length > DriftLog.maxPathLength;
    const path = isLong ? fullPath.slice(0, DriftLog.maxPathLength).toWellFormed() : fullPath;
    const key = `${kind} ${path}`;
    const known = this.#entries.get(key);
    if (known) {
      known.occurrences += 1;
      known.observedType = observedType;
    } else if (this.#entries.size < DriftLog.maxEntries) {
      this.#entries.set(key, { endpoint: this.#endpoint, path, kind, observedType, occurrences: 1 });
    }
  }

  /** What was noted, sorted by path and kind. */
  entries(): readonly Drift[] {
    return [...this.#entries.values()].toSorted((a, b) =>
      a.path === b.path ? (a.kind < b.kind ? -1 : 1) : a.path < b.path ? -1 : 1,
    );
  }
}
