import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { access, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Installer of all packages; eight times faster than pip. */
const UV = "uv==0.9.30";

/** Contents of a Python environment. */
export interface PythonRecipe {
  readonly name: string;
  /** Oldest and newest minor version of Python 3. */
  readonly minors: readonly [oldest: number, newest: number];
  /** Day, `YYYY-MM-DD`, after which no release of any package is taken. */
  readonly before: string;
  /** Requirements by step; a later step may replace packages of an earlier one. */
  readonly installs: readonly (readonly string[])[];
  /** Requirement with its hash, installed without dependencies. */
  readonly hashed?: string;
  /** Completes a new environment. */
  readonly finish?: (environment: PythonEnvironment) => Promise<unknown>;
}

/** An installed Python environment. */
export interface PythonEnvironment {
  readonly python: string;
  /** HOME of its processes. */
  readonly home: string;
}

/**
 * Installs a Python environment once per user and recipe. Fails without a suitable Python. Safe for parallel processes: each
 * builds its own, and the first one is kept.
 */
export async function installPython(recipe: PythonRecipe): Promise<PythonEnvironment> {
  const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "person-etl");
  const key = createHash("sha256")
    .update(JSON.stringify([UV, recipe]))
    .digest("hex")
    .slice(0, 12);
  const place = join(cache, `${recipe.name}-${key}`);
  if (!(await exists(join(place, "ready")))) {
    const python = await findPython(recipe.minors);
    await mkdir(cache, { recursive: true, mode: 0o700 });
    process.stderr.write(`Installing ${recipe.name} into ${place} (once) …\n`);
    await buildOnce(place, (draft) => build(recipe, python, draft));
  }
  return environmentIn(place);
}

const environmentIn = (place: string): PythonEnvironment => ({
  python: join(place, "venv", "bin", "python"),
  home: join(place, "home"),
});

async function build(recipe: PythonRecipe, python: string, place: string): Promise<void> {
  const environment = environmentIn(place);
  await mkdir(environment.home, { recursive: true });
  await run(python, ["-m", "venv", join(place, "uv")]);
  const uv = join(place, "uv", "bin", "uv");
  await run(join(place, "uv", "bin", "python"), ["-m", "pip", "install", "--quiet", UV]);
  await run(uv, ["venv", "--quiet", "--relocatable", "--python", python, join(place, "venv")]);
  // The system's certificates, as pip is usually configured; uv's own don't include those of a company's proxy.
  const install = ["pip", "install", "--native-tls", "--quiet", "--python", environment.python];
  const source = ["--no-cache", "--exclude-newer", recipe.before];
  for (const packages of recipe.installs) await run(uv, [...install, ...source, ...packages]);
  if (recipe.hashed !== undefined) {
    const requirements = join(place, "hashed.txt");
    await writeFile(requirements, `${recipe.hashed}\n`);
    const checked = ["--no-deps", "--require-hashes", "--requirement", requirements];
    await run(uv, [...install, "--no-cache", ...checked]);
  }
  await recipe.finish?.(environment);
  await rm(join(place, "uv"), { recursive: true });
}

/** Builds a folder under another name, so that it appears complete. */
async function buildOnce(place: string, make: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${place}.${randomBytes(4).toString("hex")}`;
  try {
    await make(draft);
    await writeFile(join(draft, "ready"), "");
    await rename(draft, place);
  } catch (error) {
    // Another process was faster.
    if (await exists(join(place, "ready"))) return;
    throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Finds a Python of these minor versions: on PATH, or one of pyenv's. */
async function findPython([oldest, newest]: PythonRecipe["minors"]): Promise<string> {
  const pyenv = join(process.env["PYENV_ROOT"] || join(homedir(), ".pyenv"), "versions");
  const versions = await readdir(pyenv).catch(() => []);
  const named = Array.from({ length: newest - oldest + 1 }, (_, i) => `python3.${newest - i}`);
  const installed = versions.map((version) => join(pyenv, version, "bin", "python3"));
  const test = `import sys, venv, ensurepip; sys.exit(not (3, ${oldest}) <= sys.version_info[:2] <= (3, ${newest}))`;
  for (const candidate of [process.env["PERSON_ETL_TEST_PYTHON"], ...named, "python3", ...installed]) {
    if (!candidate) continue;
    try {
      await run(candidate, ["-c", test]);
      return candidate;
    } catch {
      // Not installed, or another version.
    }
  }
  throw new Error(
    `This suite needs Python 3.${oldest} to 3.${newest} on PATH (or in PERSON_ETL_TEST_PYTHON).`,
  );
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
