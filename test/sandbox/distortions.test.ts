import { describe, expect, it } from "vitest";
import { ask, sandboxWith } from "./fault-support.ts";
import { type Answered, sandboxFor } from "./support.ts";

const withoutEnvelope = ({ text }: Answered) => text.slice(text.indexOf('"results"'));

/** Text of an answer with a fault, and of a sound one for the same people. */
const pair = async (fault: string) => {
  const sound = await ask(await sandboxFor());
  const distorted = await ask(await sandboxWith(fault));
  expect(
    distorted.body.results.map((result) => [result.record_id, result.is_match, result.service_pid]),
  ).toEqual(sound.body.results.map((result) => [result.record_id, result.is_match, result.service_pid]));
  expect(withoutEnvelope(distorted)).not.toBe(withoutEnvelope(sound));
  return { sound, distorted };
};

describe("distortions", () => {
  it("unknown fields at the top and in lists", async () => {
    const { distorted } = await pair("unknown_fields");
    const owners = distorted.body.results.filter((result) => "sandbox_new_field" in result);
    expect(owners.length).toBeGreaterThan(0);
    expect(owners.length).toBeLessThan(40);
    expect(distorted.text).toMatch(/\[\{[^[\]]*"sandbox_new_field":[^[\]]*\}/);
  });

  it("wrong types change one field of a result", async () => {
    const { sound, distorted } = await pair("wrong_types");
    const changed = distorted.body.results.filter(
      (result, i) => JSON.stringify(result) !== JSON.stringify(sound.body.results[i]),
    );
    expect(changed.length).toBeGreaterThan(0);
    expect(changed.length).toBeLessThan(20);
  });

  it.each([
    ["wrong_elements", /\[(?:\{.*\},)?(?:"sandbox"|7|null)/],
    ["nul_text", /\\u0000/],
    ["lone_surrogates", /\\ud83d(?!\\ud|\\uD)|\\ude80/],
    ["null_lists", /"(?:personal_emails|professional_emails|education_minors)":null/],
    ["exponent_numbers", /"purchase_price":\d(?:\.\d+)?e\+[45]/],
    ["decimal_strings", /"estimated_current_value":"\d+\.\d+"/],
    ["huge_integers", /:(?:9007199254740993|9223372036854775807|123456789012345678901234567890)[,}]/],
    ["long_decimals", /:412345\.12345678901234567[,}]/],
    ["owner_spellings", /"is_current_owner":(?:"true"|"Y"|1|"false"|"N"|0)/],
  ])("%s", async (fault, pattern) => {
    const { sound, distorted } = await pair(fault);
    expect(sound.text).not.toMatch(pattern);
    expect(distorted.text).toMatch(pattern);
  });

  it("numbers with exponents are the same numbers", async () => {
    const { sound, distorted } = await pair("exponent_numbers");
    expect(distorted.body.results).toEqual(sound.body.results);
  });
});
