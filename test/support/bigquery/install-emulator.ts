import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { access, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** Packages of the emulator, in installation order. */
const INSTALLS = [
  ["local-bigquery==0.4.0"],
  // DuckDB 2 has no icu extension, so every request would fail; pip's conflict warning is harmless.
  [
    "duckdb==1.5.5",
    "duckdb-extensions==1.5.5",
    ...["icu", "ducklake", "avro", "spatial"].map((name) => `duckdb-extension-${name}==1.5.5`),
  ],
  ["protobuf==7.36.2", "wasmtime==50.0.1", "tzdata"],
] as const;

/** Google's SQL analyzer, a third-party build, pinned by its hash. */
const ANALYZER =
  "zetasql==0.1.5 --hash=sha256:17fa5e5aa927fbb647c1812b08ee8ef8c5d36c8e2e83eaa4651d9bc4a8a462f8";

const IMPORT_EXTENSIONS = [
  "from duckdb_extensions import import_extension",
  "for name in ('icu', 'ducklake', 'avro', 'spatial'): import_extension(name)",
].join("\n");

const run = promisify(execFile);

/** An installed emulator. */
export interface EmulatorInstallation {
  readonly python: string;
  /** HOME of its process, with DuckDB's extensions. */
  readonly home: string;
}

/**
 * Installs the emulator and Google's analyzer into a Python environment, once per user and set of versions; about 900 MB. Fails
 * without Python 3.13. Safe for parallel processes: each builds its own, and the first one is kept.
 */
export async function installEmulator(): Promise<EmulatorInstallation> {
  const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "person-etl");
  const key = createHash("sha256")
    .update(JSON.stringify([INSTALLS, ANALYZER]))
    .digest("hex")
    .slice(0, 12);
  const place = join(cache, `bigquery-emulator-${key}`);
  if (!(await exists(join(place, "ready")))) {
    const python = await findPython();
    if (python === null) {
      throw new Error("The BigQuery suite needs Python 3.13 or newer on PATH (or PERSON_ETL_TEST_PYTHON).");
    }
    await mkdir(cache, { recursive: true, mode: 0o700 });
    await build(python, place);
  }
  return { python: join(place, "venv", "bin", "python"), home: join(place, "home") };
}

async function build(python: string, place: string): Promise<void> {
  const draft = `${place}.${randomBytes(4).toString("hex")}`;
  process.stderr.write(`Installing the BigQuery emulator into ${place} (once, 900 MB) …\n`);
  try {
    await run(python, ["-m", "venv", join(draft, "venv")]);
    const own = join(draft, "venv", "bin", "python");
    for (const packages of INSTALLS) {
      await run(own, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
    }
    const requirements = join(draft, "analyzer.txt");
    await writeFile(requirements, `${ANALYZER}\n`);
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    await run(own, [...pip, "--no-deps", "--require-hashes", "--requirement", requirements]);
    await mkdir(join(draft, "home"));
    const env = { ...process.env, HOME: join(draft, "home") };
    await run(own, ["-c", IMPORT_EXTENSIONS], { env });
    // Compiles the analyzer and stores the result.
    const support = fileURLToPath(new URL(".", import.meta.url));
    await run(own, ["-c", "import googlesql; googlesql.Analyzer()"], { env, cwd: support });
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

/** Finds a Python of at least 3.13: on PATH, or one of pyenv's. */
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
