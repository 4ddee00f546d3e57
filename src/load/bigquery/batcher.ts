/**
 * Makes many askers share one answer: what is asked for while `work` is busy is done by its next turn, together. `work` gives
 * a result for each item, in order; when it throws, all of its items fail.
 */
export function createBatcher<Item, Result>(
  work: (items: readonly Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let waiting: { readonly item: Item; readonly done: PromiseWithResolvers<Result> }[] = [];
  let isBusy = false;

  async function turn(): Promise<void> {
    isBusy = true;
    // Those who ask in the same moment come along.
    await Promise.resolve();
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        const results = await work(batch.map(({ item }) => item));
        for (const [i, { done }] of batch.entries()) {
          const result = results[i];
          if (result === undefined) done.reject(new Error("A batch has left an item out."));
          else done.resolve(result);
        }
      } catch (error) {
        for (const { done } of batch) done.reject(error);
      }
    }
    isBusy = false;
  }

  return (item) => {
    const done = Promise.withResolvers<Result>();
    waiting.push({ item, done });
    if (!isBusy) void turn();
    return done.promise;
  };
}
