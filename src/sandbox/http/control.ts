import type { World } from "../world.ts";

/** A request for one of the sandbox's own paths. */
export interface ControlCall {
  /** The parsed body; `{}` where there is none. */
  readonly body: unknown;
  /** What follows the control's name in the path. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

/** One of the sandbox's own paths: gives plain data to answer with, or null for 404. */
export type Control = (world: World, call: ControlCall) => unknown;
