import { expect, test } from "vitest";
import { lookupSpecOf, plainRequest } from "../../../src/jobs/lookup/lookup-spec.ts";
import type {
  EnrichJobConfig,
  LookupJobConfig,
  ResolveJobConfig,
} from "../../../src/jobs/lookup/lookup-types.ts";
import { customers, enrichJob, resolveJob, validateJob } from "../support.ts";

async function hashOf(job: LookupJobConfig | EnrichJobConfig | ResolveJobConfig): Promise<string> {
  const { kind, mapping } = await lookupSpecOf(job, plainRequest);
  return `${kind} ${mapping}`;
}

const everything: EnrichJobConfig = {
  ...enrichJob,
  pidFrom: "resolve_customers",
  validEmailsFrom: "validate_customers",
  returnFields: ["phones", "age"],
  matchConditionFields: ["phone"],
  includePremiumFields: true,
};

// These values stand in users' warehouses: if one changes, every answer there looks bought with other parameters.
test("kind and mapping stay what they were", async () => {
  expect(await hashOf(resolveJob)).toBe(
    "resolve:4f53cda18c2b e73f6f52c5cafb2c4a7ae08983ee4f6238015c6343f933d6b533876b4041ed5b",
  );
  expect(await hashOf(validateJob)).toBe(
    "validate_emails:4f53cda18c2b efc641b842b5defdc9566c54b72f6a18494077875543d177dc892d642725d933",
  );
  expect(await hashOf(enrichJob)).toBe(
    "enrich:4f53cda18c2b 930f8ee512546de121e977a6d19499025b3d1662be236021e6c94e8ae24fd9ad",
  );
  expect(await hashOf(everything)).toBe(
    "enrich:932ea035d8d3 8599ecc9d49889c5cc71d71cff0fadfa5a53c4836f9737738eb942568d57c537",
  );
});

const legacyOf = async (job: LookupJobConfig) => (await lookupSpecOf(job, plainRequest)).legacyParameters;

test("the hash of version 2 stays what it was", async () => {
  expect(await legacyOf(resolveJob)).toBe("6f26e9e019b8f10c5396762672829ae9112f40331d6e76a18cd7f83cf75d21ef");
  expect(await legacyOf(validateJob)).toBe(
    "91b040c06686c65b65f6e9dfb708341c99039194e0c129e85c819d6168a7a336",
  );
  expect(await legacyOf(enrichJob)).toBe("28183278db0c5fe475c204366af69245db0f11db6191fa776e94e095aa0891ba");
  expect(await legacyOf(everything)).toBe("de9d0a260ef8bfed114b5ee6391a52f6a6314116e8494a49e64fd9d2bb84e3ab");
});

test("the hash doesn't depend on where rows are, which are read, or how long an answer lasts", async () => {
  const before = await hashOf(enrichJob);
  const elsewhere = {
    ...customers,
    name: "people",
    source: { kind: "sql", sql: "SELECT 1" } as const,
    where: "active",
    orderBy: "created_at DESC",
    key: ["tenant", "id"],
  };
  expect(await hashOf({ ...enrichJob, input: elsewhere })).toBe(before);
  expect(
    await hashOf({
      ...enrichJob,
      name: "x",
      refreshAfterMs: 1,
      refreshUnmatchedAfterMs: 2,
      maxRecordsPerRun: 3,
    }),
  ).toBe(before);
});

test("the hash depends on whether the input is normalized", async () => {
  const before = await hashOf(enrichJob);
  const normalized = await hashOf({ ...enrichJob, input: { ...customers, normalize: true } });
  expect(normalized).not.toBe(before);
});

test("the hash doesn't depend on the order in which fields are written", async () => {
  const { fields } = customers;
  const turned = Object.fromEntries(Object.entries(fields).toReversed());
  expect(await hashOf({ ...enrichJob, input: { ...customers, fields: turned } })).toBe(
    await hashOf(enrichJob),
  );
  const [one, other] = [
    { ...enrichJob, returnFields: ["age", "phones", "age"], matchConditionFields: ["phone", "gender"] },
    { ...enrichJob, returnFields: ["phones", "age"], matchConditionFields: ["gender", "phone"] },
  ];
  expect(await hashOf(one)).toBe(await hashOf(other));
});

function remapped(fields: object): typeof customers {
  return { ...customers, fields: { ...customers.fields, ...fields } };
}

test("the hash depends on every field that is sent and on every parameter", async () => {
  const jobs: (LookupJobConfig | EnrichJobConfig | ResolveJobConfig)[] = [
    enrichJob,
    { ...enrichJob, input: remapped({ city: ["municipality"] }) },
    { ...enrichJob, input: remapped({ emails: ["work_email", "email"] }) },
    { ...enrichJob, input: remapped({ zipcode: ["zip"] }) },
    { ...enrichJob, pidFrom: "resolve_customers" },
    { ...enrichJob, validEmailsFrom: "validate_customers" },
    { ...enrichJob, returnFields: ["age"] },
    { ...enrichJob, matchConditionFields: ["phone"] },
    { ...enrichJob, includePremiumFields: true },
    resolveJob,
    { ...resolveJob, validEmailsFrom: "validate_customers" },
    validateJob,
  ];
  const hashes = await Promise.all(jobs.map(hashOf));
  expect(new Set(hashes).size).toBe(jobs.length);
});

test("the hash depends only on fields that the endpoint takes", async () => {
  const moved = { ...customers, fields: { ...customers.fields, city: ["municipality"], phones: ["mobile"] } };
  expect(await hashOf({ ...validateJob, input: moved })).toBe(await hashOf(validateJob));
  const moved2 = { ...customers, fields: { ...customers.fields, city: ["municipality"] } };
  expect(await hashOf({ ...resolveJob, input: moved2 })).toBe(await hashOf(resolveJob));
});

test("each job reads only the fields that its endpoint takes", async () => {
  const resolve = await lookupSpecOf(resolveJob, plainRequest);
  expect(Object.keys(resolve.input.fields)).toEqual(["first_name", "last_name", "emails", "phones"]);
  const validate = await lookupSpecOf(validateJob, plainRequest);
  expect(validate.input.fields).toEqual({ emails: ["email", "work_email"] });
  const enrich = await lookupSpecOf(enrichJob, plainRequest);
  expect(Object.keys(enrich.input.fields)).toEqual(["first_name", "last_name", "emails", "phones", "city"]);
});
