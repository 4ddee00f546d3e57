import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { installPython, type PythonEnvironment } from "../python-environment.ts";

const run = promisify(execFile);

/** Google's SQL analyzer, a third-party build, pinned by its hash. */
const ANALYZER =
  "zetasql==0.1.5 --hash=sha256:17fa5e5aa927fbb647c1812b08ee8ef8c5d36c8e2e83eaa4651d9bc4a8a462f8";

const IMPORT_EXTENSIONS = [
  "from duckdb_extensions import import_extension",
  "for name in ('icu', 'ducklake', 'avro', 'spatial'): import_extension(name)",
].join("\n");

/** Installs the emulator and Google's analyzer; about 900 MB. */
export function installEmulator(): Promise<PythonEnvironment> {
  return installPython({
    name: "bigquery-emulator",
    minors: [13, 14],
    before: "2026-11-20",
    installs: [
      ["local-bigquery==0.4.0"],
      // DuckDB 2 has no icu extension, so every request would fail.
      [
        "duckdb==1.5.5",
        "duckdb-extensions==1.5.5",
        ...["icu", "ducklake", "avro", "spatial"].map((name) => `duckdb-extension-${name}==1.5.5`),
      ],
      ["protobuf==7.36.2", "wasmtime==50.0.1", "tzdata"],
    ],
    hashed: ANALYZER,
    async finish({ python, home }) {
      const env = { ...process.env, HOME: home };
      await run(python, ["-c", IMPORT_EXTENSIONS], { env });
      // Compiles the analyzer and stores the result.
      const support = fileURLToPath(new URL(".", import.meta.url));
      await run(python, ["-c", "import googlesql; googlesql.Analyzer()"], { env, cwd: support });
    },
  });
}
