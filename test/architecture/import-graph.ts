import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";

/** An import between two of our files; paths from the project's root, with forward slashes. */
export interface Import {
  readonly from: string;
  readonly to: string;
}

/** `import … from "x"`, `export … from "x"`, `import "x"` and `import("x")`, relative ones only. */
const RELATIVE_IMPORT = /\b(?:from|import)\s*\(?\s*["'](\.{1,2}\/[^"']*)["']/gu;

/** TypeScript files below a folder, by their path from the project's root. */
export function listSources(root: string, folder: string): readonly string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .toSorted();
}

/** All imports between our files, type-only ones included. */
export function readImports(root: string, files: readonly string[]): readonly Import[] {
  return files.flatMap((from) =>
    [...readFileSync(join(root, from), "utf8").matchAll(RELATIVE_IMPORT)].map((match) => ({
      from,
      to: posix.join(posix.dirname(from), match[1] ?? ""),
    })),
  );
}

function findCycle(imports: readonly Import[]): readonly string[] | null {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
  const finished = new Set<string>();
  const visit = (file: string, path: readonly string[]): readonly string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (finished.has(file)) return null;
    for (const target of targets.get(file) ?? []) {
      const cycle = visit(target, [...path, file]);
      if (cycle) return cycle;
    }
    finished.add(file);
    return null;
  };
  for (const file of targets.keys()) {
    const cycle = visit(file, []);
    if (cycle) return cycle;
  }
  return null;
}

/** Cycles, each as its files with the first one repeated; removing the first import of each leaves none. */
export function findCycles(imports: readonly Import[]): readonly (readonly string[])[] {
  const cycles: (readonly string[])[] = [];
  let rest = imports;
  for (let cycle = findCycle(rest); cycle !== null; cycle = findCycle(rest)) {
    const [from, to] = cycle;
    cycles.push(cycle);
    rest = rest.filter((edge) => edge.from !== from || edge.to !== to);
  }
  return cycles;
}
