import type { Problems } from "./problems.ts";
import { keyPaths, type Schema, valueAt } from "./schema/walk.ts";
import type { YamlSource } from "./yaml-source.ts";

/** Section whose entries have names (`jobs`), with the settings that an entry can have. */
interface Section {
  readonly name: string;
  readonly settings: ReadonlySet<string>;
}

/**
 * Reports sections that are lists, and settings that are indented like the entry that they belong to, once per section.
 * Returns the file without them, to avoid more complaints about them.
 */
export function reportIndentation(
  root: Schema,
  source: YamlSource,
  tree: object,
  problems: Problems,
): object {
  const sections = sectionsOf(root).map(
    (section) => [section.name, placedEntries(section, source, tree, problems)] as const,
  );
  const given = sections.filter(([name]) => Object.hasOwn(tree, name));
  return { ...tree, ...Object.fromEntries(given) };
}

function placedEntries(
  { name, settings }: Section,
  source: YamlSource,
  tree: object,
  problems: Problems,
): unknown {
  const section = valueAt(tree, [name]);
  if (Array.isArray(section)) {
    problems.add([name], {
      message: "is a list, and must be a mapping",
      hint: "write `NAME:` instead of `- name: NAME`",
    });
    return {};
  }
  if (!isMapping(section)) return section;
  const misplaced = Object.entries(section).find(([key, value]) => settings.has(key) && !isMapping(value));
  if (!misplaced) return section;
  const empty = source.complaints.find(({ path }) => path.length === 2 && path[0] === name);
  if (empty) problems.add(empty.path, { message: "is empty", hint: "indent its settings below it" });
  else {
    problems.add([name, misplaced[0]], {
      message: `is a setting, not a name in ${name}`,
      hint: "write `NAME:` above the settings, and indent them below it",
    });
  }
  return Object.fromEntries(Object.entries(section).filter(([key]) => !settings.has(key)));
}

/** Section that an entry at the top of the file belongs to, by its settings; null if unclear. */
export function sectionFor(root: Schema, entry: unknown): string | null {
  if (!isMapping(entry)) return null;
  // Entries after it may have become part of it.
  const keys = Object.entries(entry).flatMap(([key, value]) => (isMapping(value) ? [] : [key]));
  const fitting = sectionsOf(root).filter(
    ({ settings }) => keys.length > 0 && keys.every((key) => settings.has(key)),
  );
  return fitting.length === 1 ? (fitting[0]?.name ?? null) : null;
}

function sectionsOf(root: Schema): readonly Section[] {
  const below = keyPaths(root).filter(({ path }) => path.length === 3 && path[1] === "NAME");
  const names = [...new Set(below.map(({ path }) => path[0] ?? ""))];
  return names.map((name) => ({
    name,
    settings: new Set(below.filter(({ path }) => path[0] === name).map(({ path }) => path[2] ?? "")),
  }));
}

function isMapping(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
