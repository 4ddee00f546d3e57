import { fileURLToPath } from "node:url";
import type { Figures } from "../figures.ts";

/** File with the committed figures. */
export const FIGURES = fileURLToPath(new URL("figures.json", import.meta.url));

/** One round: every client once, on one input. */
export interface Round {
  /** Input rows. */
  readonly rows: number;
  readonly first: Figures[];
  readonly second: Figures[];
  /** Rows of each table, equal in all clients. */
  readonly tables: Record<string, number>;
}

/** Contents of the file. */
export interface PeerFigures {
  /** Day of the last run. */
  readonly at: string;
  readonly machine: { readonly cores: number; readonly cpu: string; readonly memory_gb: number };
  readonly versions: Readonly<Record<string, string>>;
  readonly rounds: readonly Round[];
}
