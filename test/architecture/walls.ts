import type { Import } from "./import-graph.ts";

/** A part of the program, and what it may import beside itself. */
interface Room {
  readonly name: string;
  /** Files, or folders with a slash at the end; of several rooms the longest match holds. */
  readonly holds: readonly string[];
  /** Names of rooms, or single files of rooms that are closed otherwise. */
  readonly mayImport: readonly string[];
}

const rooms: readonly Room[] = [
  {
    name: "leaves",
    holds: [
      "src/advice.ts",
      "src/errors.ts",
      "src/clock.ts",
      "src/log.ts",
      "src/raw-json.ts",
      "src/crash-point.ts",
      "src/postgres-address.ts",
    ],
    mayImport: [],
  },
  { name: "schemas", holds: ["src/schemas/"], mayImport: ["leaves"] },
  // When a schedule is due: pure, without a clock of its own.
  { name: "schedule", holds: ["src/schedule/"], mayImport: [] },
  { name: "config", holds: ["src/config/"], mayImport: ["schemas", "schedule", "leaves"] },
  { name: "extract", holds: ["src/extract/"], mayImport: ["schemas", "leaves"] },
  { name: "load", holds: ["src/load/"], mayImport: ["bigquery", "schemas", "leaves", "migrations"] },
  { name: "publish", holds: ["src/publish/"], mayImport: ["bigquery", "schemas", "leaves"] },
  // The REST interface of BigQuery, for readers of inputs and for the destination.
  { name: "bigquery", holds: ["src/bigquery/"], mayImport: ["leaves"] },
  // A database server as a program beside us; to the warehouse it is a Postgres like any other.
  { name: "embedded", holds: ["src/load/embedded/"], mayImport: ["leaves"] },
  {
    name: "migrations",
    holds: ["migrations/"],
    mayImport: ["schemas", "src/load/db/ddl.ts", "src/load/db/names.ts"],
  },
  { name: "sandbox", holds: ["src/sandbox/"], mayImport: ["schemas", "leaves"] },
  { name: "spool", holds: ["src/spool/"], mayImport: ["leaves"] },
  {
    name: "jobs",
    holds: ["src/jobs/"],
    mayImport: ["extract", "load", "publish", "spool", "schemas", "config", "schedule", "leaves"],
  },
  {
    // What happens around runs: when they start, what is told of them, what is removed after them.
    name: "operate",
    holds: ["src/operate/"],
    mayImport: ["jobs", "load", "extract", "schemas", "config", "schedule", "leaves"],
  },
  {
    name: "cli",
    holds: ["src/cli/"],
    mayImport: [
      "jobs",
      "operate",
      "config",
      "leaves",
      // It wires the parts together: which database, which service, which servers of our own.
      "load",
      "publish",
      "embedded",
      "sandbox",
      "src/extract/http-client.ts",
      "src/schemas/views.ts",
      "src/extract/limits.ts",
    ],
  },
  { name: "main", holds: ["src/main.ts"], mayImport: ["cli"] },
];

function roomOf(file: string): Room | null {
  const matches = rooms.flatMap((room) =>
    room.holds
      .filter((place) => (place.endsWith("/") ? file.startsWith(place) : file === place))
      .map((place) => ({ room, length: place.length })),
  );
  return matches.toSorted((a, b) => b.length - a.length)[0]?.room ?? null;
}

/** What is wrong with an import, as a sentence; null when it is allowed. */
export function findBreach({ from, to }: Import): string | null {
  const [room, target] = [roomOf(from), roomOf(to)];
  if (!room) return `${from} stands in no room`;
  if (!target) return `${from} imports ${to}, which stands in no room`;
  if (room === target || room.mayImport.includes(target.name) || room.mayImport.includes(to)) return null;
  return `${from} (${room.name}) imports ${to} (${target.name})`;
}

/** Names that say nothing about what a file is for. */
const VAGUE_NAME = /^(?:utils?|helpers?|commons?|types?|misc|shared|lib|index)$/u;

/** What is wrong with a file's name or place, as a sentence; null when nothing is. */
export function findMisnaming(file: string): string | null {
  if (!roomOf(file)) return `${file} stands in no room`;
  const parts = file.replace(/\.ts$/u, "").split("/").slice(1);
  const vague = parts.find((part) => VAGUE_NAME.test(part));
  if (vague) return `${file}: ${vague} says nothing about what it is for`;
  const odd = parts.find((part) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/u.test(part));
  return odd ? `${file}: ${odd} is not kebab-case` : null;
}
