import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { World } from "./world.ts";

/** Changes are gathered for this long. */
const WRITE_EVERY_MS = 1000;
const VERSION = 3;

function stateOf({ seed, people, segments, searches, usage }: World) {
  return {
    version: VERSION,
    seed,
    people: people.count,
    segments: segments
      .all()
      .map(({ hooks: _hooks, members, ...kept }) => ({ ...kept, members: members.ever })),
    searches: {
      stored: [...searches.stored.values()],
      jobs: [...searches.jobs.values()],
      contactJobs: [...searches.contactJobs.values()],
      delivered: searches.deliveries.all(),
    },
    served: usage.served(),
  };
}

async function readState(world: World, file: string): Promise<void> {
  try {
    // Written by stateOf.
    const state = JSON.parse(await readFile(file, "utf8")) as ReturnType<typeof stateOf>;
    // In another population the same numbers mean other people.
    if (state.version !== VERSION || state.seed !== world.seed || state.people !== world.people.count) return;
    for (const { members, ...kept } of state.segments) {
      world.segments.create(kept)?.members.restore(members);
    }
    for (const search of state.searches.stored) world.searches.stored.set(search.searchId, search);
    for (const job of state.searches.jobs) world.searches.jobs.set(job.segmentId, job);
    for (const job of state.searches.contactJobs) world.searches.contactJobs.set(job.jobId, job);
    world.searches.deliveries.restore(state.searches.delivered);
    for (const { organization, subject, atMs, counts } of state.served) {
      world.usage.count(organization, subject, atMs, counts);
    }
  } catch {
    // There is no file yet, or it is damaged.
  }
}

/** Restores a new world from a file, if it exists, and saves later changes to it. */
export async function keepState(world: World, file: string) {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await readState(world, file);
  let isWritten = true;
  let timer: NodeJS.Timeout | null = null;
  let written: Promise<void> = Promise.resolve();
  const writeOnce = async (): Promise<void> => {
    if (isWritten) return;
    isWritten = true;
    try {
      // Renamed when complete, so that a kill leaves the earlier state.
      await writeFile(`${file}.new`, JSON.stringify(stateOf(world)), { mode: 0o600 });
      await rename(`${file}.new`, file);
    } catch {
      // The disk is full, for instance: the earlier state stays.
    }
  };
  // One write at a time: all use the same temporary name.
  const write = (): Promise<void> => (written = written.then(writeOnce));
  return {
    /** Schedules a write after a change. */
    scheduleWrite(): void {
      isWritten = false;
      timer ??= setTimeout(() => {
        timer = null;
        void write();
      }, WRITE_EVERY_MS).unref();
    },
    close(): Promise<void> {
      if (timer) clearTimeout(timer);
      return write();
    },
  };
}
