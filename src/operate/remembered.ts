/** Caches answers for a while; concurrent callers share one. Answers from before `notBeforeMs` count as old. */
export function remembered<Answer>(
  lifeMs: number,
  ask: () => Promise<Answer>,
): (notBeforeMs?: number) => Promise<Answer> {
  let last: { readonly atMs: number; readonly answer: Promise<Answer> } | null = null;
  return (notBeforeMs = Number.NEGATIVE_INFINITY) => {
    const nowMs = performance.now();
    if (last === null || nowMs - last.atMs > lifeMs || last.atMs < notBeforeMs) {
      last = { atMs: nowMs, answer: ask() };
    }
    return last.answer;
  };
}
