import { expect, test } from "vitest";
import { BigQueryFailure, explainFailure } from "../../src/bigquery/failure.ts";
import { batchBytes, createBillingLimit, priceOf } from "../../src/publish/bigquery/cost.ts";
import { catalogOf } from "../../src/publish/destination.ts";
import { clientOf } from "./bigquery-client.ts";

const destination = {
  project: "my-project",
  location: "EU",
  path: "publish.analytics",
  datasets: ["person_data", "person_data_ops"],
};
const reader = { ...destination, path: "connections.lake", datasets: [] };

/** Configuration problem that explains a failure. */
function problemOf(failure: BigQueryFailure, place = destination): unknown {
  const explained = explainFailure(failure, place);
  // A FixConfigurationError has problems.
  return (explained as { readonly problems?: readonly unknown[] }).problems?.[0];
}

test.each([
  [
    "a missing right to write",
    new BigQueryFailure("accessDenied", "Access Denied: Permission bigquery.tables.updateData denied", 403),
    destination,
    {
      path: "publish.analytics.dataset",
      hint: expect.stringContaining(
        'GRANT `roles/bigquery.dataEditor` ON SCHEMA `my-project`.`person_data` TO "serviceAccount:ACCOUNT";',
      ),
    },
  ],
  [
    "a missing right to read inputs",
    new BigQueryFailure("accessDenied", "Access Denied: User does not have bigquery.tables.getData", 403),
    reader,
    { path: "connections.lake.project", hint: expect.stringContaining("roles/bigquery.dataViewer") },
  ],
  [
    "a missing right to run jobs",
    new BigQueryFailure("accessDenied", "User does not have bigquery.jobs.create permission", 403),
    destination,
    { path: "publish.analytics.project", hint: expect.stringContaining("--role=roles/bigquery.jobUser") },
  ],
  [
    "a missing right to create datasets",
    new BigQueryFailure("accessDenied", "User does not have bigquery.datasets.create permission", 403),
    destination,
    { hint: expect.stringContaining("create the datasets person_data and person_data_ops yourself") },
  ],
  [
    "a missing right to use the key",
    new BigQueryFailure(
      "accessDenied",
      "Access Denied: Cloud KMS key projects/k/… may not be used by BigQuery",
      403,
    ),
    destination,
    {
      path: "publish.analytics.kms_key",
      hint: expect.stringContaining("roles/cloudkms.cryptoKeyEncrypterDecrypter"),
    },
  ],
  [
    "a project without billing",
    new BigQueryFailure("billingNotEnabled", "DML queries are not allowed in the free tier", 403),
    destination,
    { path: "publish.analytics.project", message: expect.stringContaining("no billing account") },
  ],
  [
    "a dataset in another location",
    new BigQueryFailure("notFound", "Not found: Dataset my-project:crm was not found in location EU", 404),
    reader,
    {
      path: "connections.lake.location",
      message: "dataset my-project:crm was not found in location EU",
    },
  ],
  [
    "missing credentials",
    new BigQueryFailure("unauthenticated", "Could not load the default credentials", 401),
    destination,
    {
      path: "publish.analytics.credentials",
      hint: expect.stringContaining("gcloud auth application-default"),
    },
  ],
  [
    "a proxy that refuses to connect",
    new BigQueryFailure("PROXY_407", "Proxy response (407)", null),
    destination,
    { path: "publish.analytics", hint: expect.stringContaining("check HTTPS_PROXY") },
  ],
  [
    "a sort that is too large",
    new BigQueryFailure("resourcesExceeded", "Resources exceeded during query execution", 400),
    reader,
    { hint: expect.stringContaining("remove `order_by`") },
  ],
])("%s is explained with what to do", (_, failure, place, expected) => {
  expect(problemOf(failure, place)).toMatchObject(expected);
});

test("a temporary failure stops with what to do, and a data error shows no value", () => {
  expect(explainFailure(new BigQueryFailure("backendError", "try again", 503), destination)).toMatchObject({
    name: "StopRunError",
    code: "database_unreachable",
  });
  expect(explainFailure(new BigQueryFailure("quotaExceeded", "load jobs", 403), destination)).toMatchObject({
    code: "destination_quota",
  });
  const other = new Error("not of BigQuery");
  expect(explainFailure(other, destination)).toBe(other);
});

test("a batch bills the whole of each table it changes, and 10 MB at least for each statement's tables", () => {
  const mebibyte = 1024 * 1024;
  const none = { stored: 0, storedKeys: 0, stagedKeys: 0, stagedRows: 0 };
  expect(batchBytes([])).toBe(10 * mebibyte);
  expect(batchBytes([none])).toBe(50 * mebibyte);
  const large = {
    stored: 5000 * mebibyte,
    storedKeys: 100 * mebibyte,
    stagedKeys: 1,
    stagedRows: 50 * mebibyte,
  };
  expect(batchBytes([large])).toBe((10 + 5100 + 10 + 50 + 10) * mebibyte);
  expect(priceOf(1024 ** 4)).toBe(6.25);
});

/** The limit of publications of `person`, with 90 GB stored there and 10 GB staged. */
function limitOf(maximumBytesBilled: number | null) {
  const gigabyte = 1024 ** 3;
  const client = clientOf((request) => {
    const { path } = request as { readonly path: string };
    if (path.endsWith("-keys")) return { numBytes: "0" };
    return { numBytes: String((path.endsWith("-rows") ? 10 : 90) * gigabyte), numRows: "0" };
  });
  const names = { project: "p", data: "d", ops: "o", staging: "d", kmsKey: null };
  const catalog = catalogOf(["person"]);
  const limit = createBillingLimit({ client, names, where: destination, maximumBytesBilled });
  limit.begin(catalog);
  const ref = { number: 1, id: "i", follows: null, attempt: "a", erases: false };
  const batch = (replaces: "keys" | "all") => ({
    ...ref,
    changes: catalog.tables.map((table) => ({ table, replaces, hasRows: true })),
  });
  const reserve = async (replaces: "keys" | "all") => {
    const bytes = await limit.reserve(batch(replaces));
    limit.add(bytes);
    return Math.round(bytes / gigabyte);
  };
  return { limit, reserve, begin: () => limit.begin(catalog) };
}

test("by default a publication may bill three times what its batches are estimated at, however many there are", async () => {
  const gigabyte = 1024 ** 3;
  const { limit, reserve, begin } = limitOf(null);
  const left = async () => Math.round((await limit.left()) / gigabyte);
  // 3 × 90 GB and 3 × 10 GB for each batch, of which it bills 100 GB.
  expect(await left()).toBe(270);
  for (let batch = 1; batch <= 5; batch += 1)
    expect([await reserve("keys"), await left()]).toEqual([100, batch * 200]);
  begin();
  expect([await reserve("keys"), await left()]).toEqual([100, 200]);
  // Attempts of one batch are no batches.
  await limit.addFailed(100 * gigabyte);
  await expect(limit.addFailed(100 * gigabyte)).rejects.toMatchObject({ code: "publication_over_limit" });
});

test("failed attempts and comparisons count like batches", async () => {
  const gigabyte = 1024 ** 3;
  const { limit } = limitOf(250 * gigabyte);
  await limit.addFailed(100 * gigabyte);
  await expect(limit.addFailed(100 * gigabyte)).rejects.toThrow(
    "another attempt would bill 100.0 GB after 200.0 GB",
  );
  await expect(limit.reserveComparison(catalogOf(["person"]).tables)).rejects.toThrow(
    "a comparison would bill 90.0 GB",
  );
});

test("a limit of the configuration holds for the batches of a publication together", async () => {
  const { limit, reserve } = limitOf(150 * 1024 ** 3);
  expect(await reserve("keys")).toBe(100);
  expect(Math.round((await limit.left()) / 1024 ** 3)).toBe(50);
  await expect(reserve("keys")).rejects.toMatchObject({
    message:
      "publish.analytics.maximum_bytes_billed: the next batch would bill 100.0 GB after 100.0 GB of this publication, more than its limit of 150.0 GB. " +
      "Nothing of it was changed; raise the limit, or publish everything again by --full, which bills only the rows; the changes stay queued.",
  });
  // A table that is replaced as a whole bills its new rows only.
  expect(await reserve("all")).toBe(10);
});
