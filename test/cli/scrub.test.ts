import { expect, test } from "vitest";
import { createScrubber } from "../../src/cli/output.ts";

test("secrets are removed in plain text, in JSON and in addresses", () => {
  const scrubber = createScrubber();
  scrubber.hide('p@ss"word/1');
  expect(scrubber.scrub('a p@ss"word/1 b p@ss\\"word/1 c p%40ss%22word%2F1')).toBe(
    "a [redacted] b [redacted] c [redacted]",
  );
});

test("results lose long secrets alone: a password that is a word must not change their JSON", () => {
  const scrubber = createScrubber();
  scrubber.hide("postgres");
  scrubber.hide("sk-0123456789abcdef");
  expect(scrubber.strike('{"warehouse":"postgres","key":"sk-0123456789abcdef"}')).toBe(
    '{"warehouse":"postgres","key":"[redacted]"}',
  );
});

test("addresses are removed, also next to each other", () => {
  expect(createScrubber().scrub('{"a":"ada.lovelace@mail.example.com","b":"x@y.co;z@w.org"}')).toBe(
    '{"a":"[redacted]","b":"[redacted];[redacted]"}',
  );
});

test.each([
  ["letters", "a".repeat(500_000)],
  ["letters before an @", `${"a".repeat(250_000)}@${"a".repeat(250_000)}`],
  ["addresses that never end", "a@".repeat(250_000)],
  ["dots", `a@${".a".repeat(250_000)}`],
])("half a megabyte of %s takes less than two seconds", (_what, text) => {
  const begun = performance.now();
  createScrubber().scrub(text);
  expect(performance.now() - begun).toBeLessThan(2000);
});
