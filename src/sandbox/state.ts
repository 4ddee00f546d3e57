import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf, messageOf } from "../errors.ts";
import type { MemberState } from "./segments/member-store.ts";
import type { Segment } from "./segments/segments.ts";
import type { ServedQuarter } from "./usage/served-calls.ts";
import type { World } from "./world.ts";

/** Keeps a world's state in a file. */
export interface StateKeeper {
  /** Something may have changed: it is written soon. */
  touch(): void;
  /** Writes what isn't written yet. */
  close(): Promise<void>;
}

/** Changes are gathered for so long. */
const WRITE_EVERY_MS = 1000;

/** A segment as it is kept: its members as base64 of their arrays. */
interface KeptSegment extends Pick<Segment, "segmentId" | "organization" | "name" | "description"> {
  readonly members: Readonly<Record<keyof MemberState, string>>;
}

interface KeptState {
  readonly version: 1;
  readonly seed: number;
  readonly people: number;
  readonly segments: readonly KeptSegment[];
  readonly served: readonly ServedQuarter[];
}

const base64 = (array: Uint32Array | Float64Array | Uint8Array): string =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
/** Copied, because a part of Node's pool of buffers need not lie at a whole number of elements. */
const bytesOf = (text: string): ArrayBuffer => new Uint8Array(Buffer.from(text, "base64")).buffer;

function stateOf(world: World): KeptState {
  return {
    version: 1,
    seed: world.seed,
    people: world.people.count,
    segments: world.segments.all().map(({ segmentId, organization, name, description, members }) => {
      const { pids, firstAdded, lastAdded, living } = members.state();
      return {
        segmentId,
        organization,
        name,
        description,
        members: {
          pids: base64(pids),
          firstAdded: base64(firstAdded),
          lastAdded: base64(lastAdded),
          living: base64(living),
        },
      };
    }),
    served: world.usage.served.state(),
  };
}

function restore(world: World, state: KeptState): void {
  // Another population has other people behind the same numbers.
  if (state.version !== 1 || state.seed !== world.seed || state.people !== world.people.count) return;
  for (const { members, ...kept } of state.segments) {
    const segment = world.segments.create(kept);
    segment?.members.restore({
      pids: new Uint32Array(bytesOf(members.pids)),
      firstAdded: new Float64Array(bytesOf(members.firstAdded)),
      lastAdded: new Float64Array(bytesOf(members.lastAdded)),
      living: new Uint8Array(bytesOf(members.living)),
    });
  }
  world.usage.served.restore(state.served);
}

async function readState(world: World, file: string): Promise<void> {
  try {
    // Written by stateOf; what is damaged is thrown at below.
    restore(world, JSON.parse(await readFile(file, "utf8")) as KeptState);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return;
    world.log.warn({ file, message: messageOf(error) }, "sandbox_state_unreadable");
  }
}

/** Fills a fresh world with the state of a file, if there is one, and keeps it there from then on. */
export async function keepState(world: World, file: string): Promise<StateKeeper> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await readState(world, file);
  let isWritten = true;
  let timer: NodeJS.Timeout | null = null;
  // One after the other: they share the name that is renamed.
  let written: Promise<void> = Promise.resolve();
  const writeOnce = async (): Promise<void> => {
    if (isWritten) return;
    isWritten = true;
    try {
      // Renamed when it is whole: a kill in between leaves the state of before.
      await writeFile(`${file}.new`, JSON.stringify(stateOf(world)), { mode: 0o600 });
      await rename(`${file}.new`, file);
    } catch (error) {
      world.log.error({ file, message: messageOf(error) }, "sandbox_state_not_written");
    }
  };
  const write = (): Promise<void> => (written = written.then(writeOnce));
  return {
    touch() {
      isWritten = false;
      timer ??= setTimeout(() => {
        timer = null;
        void write();
      }, WRITE_EVERY_MS).unref();
    },
    close() {
      if (timer) clearTimeout(timer);
      return write();
    },
  };
}
