import { expect, test } from "vitest";
import { lookupSpecOf } from "../../../src/jobs/lookup/lookup-spec.ts";
import { plainRun } from "../../../src/jobs/services.ts";
import { type LookupJobConfig, lookupOf } from "../../../src/jobs/lookup/lookup-types.ts";
import { customers, enrichJob, resolveJob, validateJob } from "../support.ts";

const specOf = (job: LookupJobConfig) => lookupSpecOf(job, plainRun);

/** Request parameters of a job. */
async function hashOf(job: LookupJobConfig): Promise<string> {
  const { kind, mapping } = await specOf(job);
  return `${kind} ${mapping}`;
}

/** An enrich job with other settings or input. */
const enrich = (more: Partial<LookupJobConfig>): LookupJobConfig => ({ ...enrichJob, ...more });
const remapped = (fields: object) => ({ ...customers, fields: { ...customers.fields, ...fields } });

const everything = enrich({
  pidFrom: "resolve_customers",
  validEmailsFrom: "validate_customers",
  returnFields: ["phones", "age"],
  matchConditionFields: ["phone"],
  includePremiumFields: true,
});

// These values stand in users' warehouses: if one changes, every answer there looks bought with other parameters.
test.each<readonly [string, LookupJobConfig, string, string]>([
  [
    "resolve",
    resolveJob,
    "resolve:4f53cda18c2b e73f6f52c5cafb2c4a7ae08983ee4f6238015c6343f933d6b533876b4041ed5b",
    "6f26e9e019b8f10c5396762672829ae9112f40331d6e76a18cd7f83cf75d21ef",
  ],
  [
    "validate_emails",
    validateJob,
    "validate_emails:4f53cda18c2b efc641b842b5defdc9566c54b72f6a18494077875543d177dc892d642725d933",
    "91b040c06686c65b65f6e9dfb708341c99039194e0c129e85c819d6168a7a336",
  ],
  [
    "enrich",
    enrichJob,
    "enrich:4f53cda18c2b 930f8ee512546de121e977a6d19499025b3d1662be236021e6c94e8ae24fd9ad",
    "28183278db0c5fe475c204366af69245db0f11db6191fa776e94e095aa0891ba",
  ],
  [
    "enrich with every parameter",
    everything,
    "enrich:932ea035d8d3 8599ecc9d49889c5cc71d71cff0fadfa5a53c4836f9737738eb942568d57c537",
    "de9d0a260ef8bfed114b5ee6391a52f6a6314116e8494a49e64fd9d2bb84e3ab",
  ],
])("kind, mapping, and the hash of version 2 stay what they were: %s", async (_, job, hash, legacy) => {
  expect([await hashOf(job), (await specOf(job)).legacyParameters]).toEqual([hash, legacy]);
});

const moved = { ...validateJob, input: remapped({ city: ["municipality"], phones: ["mobile"] }) };
const [one, other] = [
  enrich({ returnFields: ["age", "phones", "age"], matchConditionFields: ["phone", "gender"] }),
  enrich({ returnFields: ["phones", "age"], matchConditionFields: ["gender", "phone"] }),
];

// Names, places and times of jobs and inputs: test/nights/content.test.ts.
test.each<readonly [string, LookupJobConfig, LookupJobConfig]>([
  ["the order of parameters", one, other],
  ["fields that the endpoint doesn't take", moved, validateJob],
])("doesn't depend on %s", async (_, job, same) => {
  expect(await hashOf(job)).toBe(await hashOf(same));
});

const fieldsOf = async (job: LookupJobConfig) => Object.keys((await specOf(job)).input.fields);

test("each job reads only the fields that its endpoint takes, and sends only parameters that are set", async () => {
  const names = ["first_name", "last_name", "emails", "phones"];
  expect(await fieldsOf(resolveJob)).toEqual(names);
  expect(await fieldsOf(validateJob)).toEqual(["emails"]);
  expect(await fieldsOf(enrichJob)).toEqual([...names, "city"]);
  expect(lookupOf(enrichJob).requestParameters).toEqual({});
  expect(lookupOf(everything).requestParameters).toEqual({
    match_condition_fields: ["phone"],
    return_fields: ["phones", "age"],
    include_premium_fields: true,
  });
});
