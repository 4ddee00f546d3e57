/** Death signals that somebody stated through the controls, instead of those that the population has by itself. */
export interface StatedDeaths {
  /** JSON texts of signals by PID number. */
  readonly byPid: Map<number, Map<string, string>>;
  /** Ids of signals of the population that aren't reported: removed, or replaced by a stated one. */
  readonly hidden: Set<string>;
}

/** Nothing is stated. */
export function createStatedDeaths(): StatedDeaths {
  return { byPid: new Map(), hidden: new Set() };
}
