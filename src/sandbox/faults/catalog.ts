import { DISTORTION_FAULTS } from "./distortions.ts";
import { type Fault, numberOr } from "./fault.ts";
import { REFUSAL_FAULTS } from "./refusals.ts";

/** Faults that leave the results as they are, and change when, whether or in which order they arrive. */
const DELIVERY_FAULTS = {
  slow: {
    doc: "waits before answering (the value in milliseconds, default 1000)",
    stage: "delay",
    delayMs: (value) => numberOr(value, 1000),
  },
  slow_body: {
    doc: "waits between headers and body (the value in milliseconds, default 1000); billed",
    stage: "wire",
    damage: (value) => ({ bodyDelayMs: numberOr(value, 1000) }),
  },
  cut_before: {
    doc: "closes the connection before the request is carried out; not billed",
    stage: "connection",
  },
  cut_body: {
    doc: "closes the connection in the middle of the body; billed",
    stage: "wire",
    damage: () => ({ damage: "cut_body" }),
  },
  truncated_json: {
    doc: "half of the JSON, with a content-length that fits it; billed",
    stage: "wire",
    damage: () => ({ damage: "truncated" }),
  },
  reply_lost: {
    doc: "resets the connection after the request was carried out; billed",
    stage: "wire",
    damage: () => ({ damage: "lost" }),
  },
  shuffled: {
    doc: "results in another order",
    stage: "results",
    rearrange(results, dice) {
      const moved = [...results];
      for (let i = moved.length - 1; i > 0; i--) {
        const j = dice.below(i + 1);
        const [a, b] = [moved[i], moved[j]];
        if (a !== undefined && b !== undefined) [moved[i], moved[j]] = [b, a];
      }
      return moved;
    },
  },
  duplicated: {
    doc: "one result in ten twice, at least one",
    stage: "results",
    rearrange(results, dice) {
      const sure = dice.below(results.length);
      return results.flatMap((text, i) => (i === sure || dice.chance(0.1) ? [text, text] : [text]));
    },
  },
  missing: {
    doc: "one result in ten left out, at least one; billed all the same",
    stage: "results",
    rearrange(results, dice) {
      const sure = dice.below(results.length);
      return results.filter((_, i) => i !== sure && !dice.chance(0.1));
    },
  },
  foreign: {
    doc: "one more result, for a record that nobody sent",
    stage: "results",
    rearrange: (results) => [
      ...results,
      '{"record_id":"sandbox-foreign","email_address":"nobody@sandbox.example","is_match":false,"service_pid":null,"match_score":null,"validation_errors":null}',
    ],
  },
  legacy_errors: {
    doc: "errors in the legacy shape `{api_request_id, error_message}`",
    stage: "shape",
    shape: { form: "legacy" },
  },
  status_code_errors: {
    doc: "errors in the shape `{error, status_code}`",
    stage: "shape",
    shape: { form: "status_code" },
  },
  deprecated_fields: {
    doc: "errors that also carry the deprecated `statusCode` and `body`",
    stage: "shape",
    shape: { deprecatedFields: true },
  },
} satisfies Record<string, Fault>;

/** Every fault by its name. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  ...REFUSAL_FAULTS,
  ...DELIVERY_FAULTS,
  ...DISTORTION_FAULTS,
};
