import type { Import } from "./import-graph.ts";

/** A part of the program, and its allowed imports. */
interface Layer {
  readonly name: string;
  /** Files, or folders with a slash at the end; the longest match decides. */
  readonly holds: readonly string[];
  /** Names of layers, or single files of other layers. */
  readonly mayImport: readonly string[];
}

const layers: readonly Layer[] = [
  {
    name: "leaves",
    holds: [
      "src/advice.ts",
      "src/errors.ts",
      "src/clock.ts",
      "src/log.ts",
      "src/figures.ts",
      "src/outage-report.ts",
      "src/money.ts",
      "src/suggest.ts",
      "src/crash-point.ts",
      "src/body.ts",
      "src/garbage.ts",
      "src/process-state.ts",
      "src/http-agent.ts",
      "src/object-store.ts",
      "src/sync-folder.ts",
      "src/postgres-address.ts",
    ],
    mayImport: [],
  },
  { name: "schemas", holds: ["src/schemas/"], mayImport: ["leaves"] },
  // Slots of a schedule: pure, without a clock.
  { name: "schedule", holds: ["src/schedule/"], mayImport: [] },
  { name: "config", holds: ["src/config/"], mayImport: ["schemas", "schedule", "leaves"] },
  { name: "extract", holds: ["src/extract/"], mayImport: ["schemas", "leaves"] },
  { name: "load", holds: ["src/load/"], mayImport: ["bigquery", "schemas", "leaves", "migrations"] },
  { name: "publish", holds: ["src/publish/"], mayImport: ["bigquery", "schemas", "leaves"] },
  // BigQuery's REST interface, for readers of inputs and for the destination.
  { name: "bigquery", holds: ["src/bigquery/"], mayImport: ["leaves"] },
  // A separate database server; an ordinary Postgres for the warehouse.
  { name: "embedded", holds: ["src/load/embedded/"], mayImport: ["leaves"] },
  {
    name: "migrations",
    holds: ["migrations/"],
    mayImport: ["schemas", "src/load/db/ddl.ts", "src/load/db/names.ts"],
  },
  // Nothing of the client but names: a mock that changes with its client proves nothing.
  { name: "sandbox", holds: ["packages/sandbox/src/"], mayImport: ["schemas"] },
  { name: "spool", holds: ["src/spool/"], mayImport: ["leaves"] },
  {
    name: "jobs",
    holds: ["src/jobs/"],
    mayImport: ["extract", "load", "publish", "spool", "schemas", "config", "schedule", "leaves"],
  },
  {
    // Work around runs: starts, alerts and cleanup.
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
      // Wiring of the parts: database, service, our own servers.
      "load",
      "publish",
      "embedded",
      "sandbox",
      "src/extract/http-client.ts",
      "src/schemas/views/all-views.ts",
      "src/schemas/views/profile-input.ts",
      "src/extract/limits.ts",
    ],
  },
  { name: "main", holds: ["src/main.ts"], mayImport: ["cli"] },
];

function layerOf(file: string): Layer | null {
  const matches = layers.flatMap((layer) =>
    layer.holds
      .filter((place) => (place.endsWith("/") ? file.startsWith(place) : file === place))
      .map((place) => ({ layer, length: place.length })),
  );
  return matches.toSorted((a, b) => b.length - a.length)[0]?.layer ?? null;
}

/** Describes a forbidden import; null for an allowed one. */
export function findBreach({ from, to }: Import): string | null {
  const [layer, target] = [layerOf(from), layerOf(to)];
  if (!layer) return `${from} is in no layer`;
  if (!target) return `${from} imports ${to}, which is in no layer`;
  if (layer === target || layer.mayImport.includes(target.name) || layer.mayImport.includes(to)) return null;
  return `${from} (${layer.name}) imports ${to} (${target.name})`;
}

/** Names that don't describe a file. */
const VAGUE_NAME = /^(?:utils?|helpers?|commons?|types?|misc|shared|lib|index)$/u;

/** Describes a file's wrong name or place; null if both are right. */
export function findMisnaming(file: string): string | null {
  if (!layerOf(file)) return `${file} is in no layer`;
  const parts = file.replace(/\.ts$/u, "").split("/").slice(1);
  const vague = parts.find((part) => VAGUE_NAME.test(part));
  if (vague) return `${file}: ${vague} doesn't describe its content`;
  const odd = parts.find((part) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/u.test(part));
  return odd ? `${file}: ${odd} is not kebab-case` : null;
}
