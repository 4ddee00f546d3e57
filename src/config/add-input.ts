import { isDeepStrictEqual } from "node:util";
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";
import { type InputAnswers, renderInput, renderJobs } from "./template.ts";
import { readYaml } from "./yaml-source.ts";

/** Adds an input and its jobs to the text of a file, which otherwise stays as it is; null if that isn't possible. */
export function addInputToText(text: string, answers: InputAnswers): string | null {
  const withInput = addEntries(text, "inputs", renderInput(answers));
  const added = withInput && addEntries(withInput, "jobs", `\n${renderJobs(answers)}`);
  return added && keepsAll(text, added, answers.input) ? added : null;
}

/** Adds entries, indented by two spaces, at the end of a section. */
function addEntries(text: string, section: string, block: string): string | null {
  const { contents, errors } = parseDocument(text, { keepSourceTokens: true });
  if (errors.length > 0 || !isMap(contents) || contents.flow === true) return null;
  const pairs = contents.items;
  const at = pairs.findIndex(({ key }) => isScalar(key) && key.value === section);
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n";
  const lines = block.trimEnd().split("\n");
  if (at < 0) return `${text.trimEnd()}${lineEnd}${[`${lineEnd}${section}:`, ...lines, ""].join(lineEnd)}`;
  const map = pairs[at]?.value;
  if (!isMap(map)) return null;
  if (map.flow === true) return null;
  const indent = " ".repeat(columnOf(map, text));
  const end = endOfSection(text, pairs[at + 1]);
  const own = lines.map((line) => line.replace(/^(?: {2})+/u, (spaces) => indent.repeat(spaces.length / 2)));
  return [text.slice(0, end).trimEnd(), ...own, ""].join(lineEnd) + text.slice(end);
}

/** Column of a block mapping's keys. */
function columnOf(map: YAMLMap, text: string): number {
  const [first] = map.items;
  const start = isScalar(first?.key) ? (first.key.range?.[0] ?? 0) : 0;
  return start - (text.lastIndexOf("\n", start - 1) + 1);
}

/** Offset after a section: before blank lines and unindented comments, which belong to the next section. */
function endOfSection(text: string, next: Pair | undefined): number {
  const start = isScalar(next?.key) ? (next.key.range?.[0] ?? text.length) : text.length;
  const lines = text.slice(0, start).split(/(?<=\n)/u);
  while (lines.length > 0 && /^(?:#|\s*$)/u.test(lines.at(-1) ?? "")) lines.pop();
  return lines.join("").length;
}

/** True if everything in the file still has its value. */
function keepsAll(before: string, after: string, input: string): boolean {
  const [old, now] = [before, after].map((text) => sectionsOf(text));
  if (!old || !now) return false;
  const { [input]: _added, ...inputs } = now.inputs;
  const jobs = Object.fromEntries(Object.entries(now.jobs).filter(([name]) => Object.hasOwn(old.jobs, name)));
  return isDeepStrictEqual({ ...now, inputs, jobs }, old);
}

function sectionsOf(text: string) {
  const { value, syntax } = readYaml(text, "config.yaml");
  if (!syntax.isReadable || syntax.problems.length > 0 || typeof value !== "object") return null;
  const { inputs, jobs, ...others } = { ...value } as Record<string, unknown>; // a mapping: checked when it was loaded
  return { others, inputs: { ...(inputs as object) }, jobs: { ...(jobs as object) } } as {
    others: object;
    inputs: Record<string, unknown>;
    jobs: Record<string, unknown>;
  };
}
