import { execFile } from "node:child_process";
import { mkdir, readFile, stat, symlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** An image, built into a folder. */
export interface BuiltImage {
  /** Folder of its file system. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly entrypoint: readonly [string, ...string[]];
}

interface Stage {
  readonly name: string;
  readonly steps: readonly Step[];
}

interface Step {
  readonly keyword: string;
  readonly text: string;
}

/** Carries out the steps of deploy/Dockerfile without Docker: each stage has its own folder, and this machine's programs. */
export async function buildImage(folder: string): Promise<BuiltImage> {
  const stages = stagesOf(await readFile(resolve("deploy/Dockerfile"), "utf8"));
  const image = stages.at(-1);
  if (!image) throw new Error("the Dockerfile has no stage");
  await Promise.all(stages.slice(0, -1).map((stage) => buildStage(folder, stage)));
  await buildStage(folder, image);
  const root = join(folder, image.name);
  const texts = (keyword: string) => image.steps.flatMap((s) => (s.keyword === keyword ? [s.text] : []));
  const env = texts("ENV").flatMap((text) => text.split(" ").map((pair) => pair.split("=")));
  const entrypoint: [string, ...string[]] = JSON.parse(texts("ENTRYPOINT").join(""));
  return {
    root,
    env: Object.fromEntries(env.map(([name = "", value = ""]) => [name, placed(root, value)])),
    entrypoint: [placed(root, entrypoint[0]), ...entrypoint.slice(1)],
  };
}

function stagesOf(dockerfile: string): readonly Stage[] {
  const lines = dockerfile
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n");
  const steps = lines.flatMap((line) => {
    const [, keyword, text] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    return keyword && text ? [{ keyword, text }] : [];
  });
  const starts = steps.flatMap(({ keyword }, index) => (keyword === "FROM" ? [index] : []));
  return starts.map((start, index) => ({
    name: / AS (\w+)$/.exec(steps[start]?.text ?? "")?.[1] ?? "image",
    steps: steps.slice(start + 1, starts[index + 1]),
  }));
}

const INSTALL_ALL = "npm ci --ignore-scripts --no-audit --no-fund";

async function buildStage(folder: string, { name, steps }: Stage): Promise<void> {
  const root = join(folder, name);
  let workdir = root;
  for (const { keyword, text } of steps) {
    if (keyword === "WORKDIR") {
      workdir = placed(root, text);
      await mkdir(workdir, { recursive: true });
    } else if (keyword === "COPY") await copy(folder, workdir, text.split(" "));
    // With tools it installs what the checkout has.
    else if (text === INSTALL_ALL) await symlink(resolve("node_modules"), join(workdir, "node_modules"));
    else if (keyword === "RUN") {
      const env = { ...process.env, npm_config_prefer_offline: "true" };
      await run("sh", ["-c", commandOf(root, text)], { cwd: workdir, env });
    }
  }
}

async function copy(folder: string, workdir: string, words: readonly string[]): Promise<void> {
  const from = /^--from=(\w+)$/.exec(words[0] ?? "")?.[1];
  const sources = words.slice(from ? 1 : 0, -1);
  const [last = ""] = words.slice(-1);
  const target = join(workdir, last);
  for (const source of sources) {
    const path = from ? placed(join(folder, from), source) : resolve(source);
    const isFolder = (await stat(path)).isDirectory();
    await mkdir(isFolder || last.endsWith("/") ? target : dirname(target), { recursive: true });
    // Docker copies the content of a folder. Links suffice for files of another stage.
    await run("cp", [from ? "-al" : "-a", isFolder ? `${path}/.` : path, target]);
  }
}

/** An absolute path of the image in its folder; other texts stay. */
function placed(root: string, text: string): string {
  return text.startsWith("/") ? join(root, text) : text;
}

/** A command with its paths in the folder, where the image's user is the one of this process. */
function commandOf(root: string, text: string): string {
  const words = text.split(" ").map((word) => placed(root, word));
  return words.join(" ").replaceAll("node:node", `${process.getuid?.()}:${process.getgid?.()}`);
}
