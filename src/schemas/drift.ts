/** Kind of difference between a field and its declaration. */
type DriftKind = "unknown_field" | "unexpected_type";

/**
 * Returns the name of an unknown field for a path; `?` if it doesn't look like one of the service's, which start in lower case: maps
 * can have addresses, PIDs or names of people as keys.
 */
export function fieldName(name: string): string {
  const digits = name.replaceAll(/\D/gu, "").length;
  return /^[a-z_]\w{0,62}$/u.test(name) && digits <= 4 ? name : "?";
}

/** One difference between an endpoint's answers and the declaration. */
export interface Drift {
  /** Method and path, `POST /v2/enrich`. */
  readonly endpoint: string;
  /** Path within the result record, `[]` for lists: `address_history[].new_field`. */
  readonly path: string;
  readonly kind: DriftKind;
  /** JSON type last seen, or `nul_character`, `lone_surrogate`. */
  observedType: string;
  occurrences: number;
}

/** Counts differences by path and kind; bounded, so that a hostile answer can't fill memory or the table. */
export class DriftLog {
  static readonly maxEntries = 1000;
  /** Longer paths are truncated: they are part of a key, and index entries are limited (Postgres: 2,704 bytes). */
  static readonly maxPathLength = 400;
  readonly #endpoint: string;
  readonly #entries = new Map<string, Drift>();

  constructor(endpoint: string) {
    this.#endpoint = endpoint;
  }

  /** Records one occurrence. */
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

  /** Recorded differences, sorted by path and kind. */
  entries(): readonly Drift[] {
    return [...this.#entries.values()].toSorted((a, b) =>
      a.path === b.path ? (a.kind < b.kind ? -1 : 1) : a.path < b.path ? -1 : 1,
    );
  }
}
