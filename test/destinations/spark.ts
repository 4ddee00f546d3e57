import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { FileRow } from "../publish/staged-files.ts";
import { type RunningJudges, S3_KEYS, S3_REGION, WAREHOUSE } from "../support/iceberg/start-judges.ts";

const run = promisify(execFile);
const support = (name: string) => fileURLToPath(new URL(`../support/iceberg/${name}`, import.meta.url));

/** Settings of a Spark that has the tables of a catalog as `lake`. */
export function sparkSettings({ sparkJars, catalog, s3 }: RunningJudges): Readonly<Record<string, string>> {
  const prefixed = Object.entries({
    type: "rest",
    uri: catalog,
    warehouse: WAREHOUSE,
    "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "s3.endpoint": s3,
    "s3.path-style-access": "true",
    // Nessie doesn't list what it answers.
    "view-endpoints-supported": "true",
    "client.region": S3_REGION,
    "s3.access-key-id": S3_KEYS.accessKeyId,
    "s3.secret-access-key": S3_KEYS.secretAccessKey,
  }).map(([key, value]) => [`spark.sql.catalog.lake.${key}`, value]);
  return {
    "spark.jars": sparkJars.join(","),
    "spark.driver.memory": "900m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    ...Object.fromEntries(prefixed),
  };
}

/** Environment of Spark's processes. */
export const sparkEnvironment = ({ javaHome }: RunningJudges) => ({
  JAVA_HOME: support("spark-java"),
  REAL_JAVA_HOME: javaHome,
});

/** Runs queries by name in Spark. @param compacted tables whose files Spark rewrites before */
export async function queryBySpark(
  judges: RunningJudges,
  queries: Readonly<Record<string, string>>,
  compacted: readonly string[] = [],
): Promise<ReadonlyMap<string, readonly FileRow[]>> {
  const env = { ...process.env, ...sparkEnvironment(judges), TZ: "UTC", PYSPARK_PYTHON: judges.python };
  const args = [
    support("read_by_spark.py"),
    JSON.stringify(sparkSettings(judges)),
    JSON.stringify(queries),
    ...compacted,
  ];
  const { stdout } = await run(judges.python, args, { env, maxBuffer: 2 ** 30 });
  return new Map(Object.entries(JSON.parse(stdout) as Record<string, readonly FileRow[]>)); // see the program
}
