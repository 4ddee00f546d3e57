import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { access, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** What the emulator needs, in the order in which pip has to install it. */
const INSTALLS = [
  ["local-bigquery==0.4.0"],
  // With DuckDB 2 no icu extension can be had and every request fails; pip says that the versions conflict, which is harmless.
  [
    "duckdb==1.5.5",
    "duckdb-extensions==1.5.5",
    ...["icu", "ducklake", "avro", "spatial"].map((name) => `duckdb-extension-${name}==1.5.5`),
  ],
] as const;

const IMPORT_EXTENSIONS = [
  "from duckdb_extensions import import_extension",
  "for name in ('icu', 'ducklake', 'avro', 'spatial'): import_extension(name)",
].join("\n");

const run = promisify(execFile);

/** An installed emulator. */
export interface EmulatorInstallation {
  readonly python: string;
  /** HOME of its process: DuckDB finds its extensions there. */
  readonly home: string;
}

/**
 * The emulator in a Python environment that is made once per user and set of versions, about 800 MB; null without Python
 * 3.13. Safe for several processes at once: each builds its own, the first to end puts it in place.
 */
export async function installEmulator(): Promise<EmulatorInstallation | null> {
  const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "person-etl");
  const key = createHash("sha256").update(JSON.stringify(INSTALLS)).digest("hex").slice(0, 12);
  const place = join(cache, `bigquery-emulator-${key}`);
  if (!(await exists(join(place, "ready")))) {
    const python = await findPython();
    if (python === null) return null;
    await mkdir(cache, { recursive: true, mode: 0o700 });
    await build(python, place);
  }
  return { python: join(place, "venv", "bin", "python"), home: join(place, "home") };
}

async function build(python: string, place: string): Promise<void> {
  const draft = `${place}.${randomBytes(4).toString("hex")}`;
  process.stderr.write(`Installing the BigQuery emulator into ${place} (once, 800 MB) …\n`);
  try {
    await run(python, ["-m", "venv", join(draft, "venv")]);
    const own = join(draft, "venv", "bin", "python");
    for (const packages of INSTALLS) {
      await run(own, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
    }
    await mkdir(join(draft, "home"));
    await run(own, ["-c", IMPORT_EXTENSIONS], { env: { ...process.env, HOME: join(draft, "home") } });
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

/** A Python of at least 3.13: on PATH, or one of pyenv's. */
async function findPython(): Promise<string | null> {
  const pyenv = join(process.env["PYENV_ROOT"] || join(homedir(), ".pyenv"), "versions");
  const versions = await readdir(pyenv).catch(() => []);
  const candidates = [
    process.env["PERSON_ETL_TEST_PYTHON"],
    "python3.14",
    "python3.13",
    "python3",
    ...versions.map((version) => join(pyenv, version, "bin", "python3")),
  ];
  for (const candidate of candidates) {
    if (candidate && (await isRecent(candidate))) return candidate;
  }
  return null;
}

async function isRecent(python: string): Promise<boolean> {
  try {
    await run(python, ["-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 13))"]);
    return true;
  } catch {
    return false;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
