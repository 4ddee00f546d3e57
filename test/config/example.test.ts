import { jobTypes } from "../../src/jobs/registry.ts";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { orderJobs } from "../../src/config/references.ts";
import { documentSchemaOf } from "../../src/config/schema/document.ts";
import { keyPaths } from "../../src/config/schema/settings.ts";
import { load } from "./support.ts";

const documentSchema = documentSchemaOf(jobTypes);

const file = resolve("config.example.yaml");
/** The example with every commented-out setting enabled (# without a space after it). */
const uncommented = async () => (await readFile(file, "utf8")).replaceAll(/^(\s*)#(?=\S)/gm, "$1");

describe("config.example.yaml", () => {
  it("runs unchanged: sandbox, embedded database, its jobs, nothing in the environment", async () => {
    const config = await loadConfig({ jobTypes, file, env: {} });
    expect(config.warnings).toEqual([]);
    expect(config.service.baseUrl).toBe("sandbox");
    expect(config.warehouse.url).toBe("embedded");
    expect(config.dataDir).toBe(resolve(".person-etl"));
    expect(config.inputs["customers"]?.source).toEqual({ kind: "table", schema: "crm", table: "customers" });
    expect(orderJobs(config).map((job) => job.name)).toEqual([
      "resolve_customers",
      "validate_customers",
      "enrich_customers",
      "customer_segment",
      "customer_members",
      "customer_deaths",
      "search_usage",
      "prospects",
      "audiences",
      "nurse_members",
      "endpoint_usage",
    ]);
    expect(config.jobs[2]).toMatchObject({
      pidFrom: "resolve_customers",
      validEmailsFrom: "validate_customers",
    });
  });

  it("is valid with every setting, and shows each commented out at its default, or as an example", async () => {
    const [plain, all] = [
      await loadConfig({ jobTypes, file, env: {} }),
      await load(await uncommented(), {
        env: {
          CRM_URL: "postgresql://crm.internal/crm",
          ALERT_WEBHOOK: "https://hooks.example.com/1",
          ERASURE_KEY: "0123456789abcdef",
        },
      }),
    ];
    expect(all.inputs["customers"]?.connection?.name).toBe("crm");
    expect(all.jobs.length).toBeGreaterThan(plain.jobs.length);
    for (const part of ["logLevel", "sandbox", "warehouse", "confirmAbove", "http"] as const) {
      expect(all[part]).toEqual(plain[part]);
    }
    expect(all.inputs["customers"]?.maxMissingRatio).toBe(plain.inputs["customers"]?.maxMissingRatio);
    expect(all.jobs[0]?.timezone).toBe(plain.jobs[0]?.timezone);
  });

  it("shows every setting that can be used, and none that can't", async () => {
    const text = await uncommented();
    const keys = keyPaths(documentSchema)
      .filter(({ path }) => path[1] !== "limits")
      .map(({ path }) => path.at(-1) ?? "");
    const absent = [...new Set(keys)].filter((key) => !new RegExp(`[\\s{,]${key}:`).test(text));
    const absentOnPurpose = {
      "for BigQuery":
        "project location credentials impersonate_service_account api_endpoint maximum_bytes_billed labels billing_project kms_key dataset ops_dataset staging_dataset",
      "for Iceberg":
        "catalog credential token_url scope namespace ops_namespace local_folder s3_endpoint s3_region access_key_id secret_access_key",
      "for asynchronous person search": "user_api_key",
      "for pages that others can reach": "token",
      "would contradict pid_from": "service_pid",
    };
    const expected = Object.values(absentOnPurpose).flatMap((names) => names.split(" "));
    expect(absent.toSorted()).toEqual(expected.toSorted());
  });
});
