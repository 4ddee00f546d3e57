import type { ErrorShape } from "../http/outcome.ts";
import type { Wire } from "../http/send.ts";
import type { Dice } from "./dice.ts";
import { DISTORTION_FAULTS } from "./distortions.ts";
import { type Fault, type FaultValue, numberOr } from "./fault.ts";
import { REFUSAL_FAULTS } from "./refusals.ts";

const wire = (doc: string, damage: (value: FaultValue) => Partial<Wire>): Fault => ({
  doc,
  stage: "wire",
  damage,
});
const results = (
  doc: string,
  rearrange: (results: readonly string[], dice: Dice) => readonly string[],
): Fault => ({ doc, stage: "results", rearrange });
const shape = (doc: string, changes: Partial<ErrorShape>): Fault => ({ doc, stage: "shape", shape: changes });

const FOREIGN_RESULT =
  '{"record_id":"sandbox-foreign","email_address":"nobody@sandbox.example","is_match":false,"service_pid":null,"match_score":null,"validation_errors":null}';

/** Faults that keep the content of results, and change when, whether or in which order they arrive. */
const DELIVERY_FAULTS: Readonly<Record<string, Fault>> = {
  slow: {
    doc: "waits before answering (the value in milliseconds, default 1000)",
    stage: "delay",
    delayMs: (value) => numberOr(value, 1000),
  },
  slow_body: wire(
    "waits between headers and body (the value in milliseconds, default 1000); billed",
    (value) => ({ bodyDelayMs: numberOr(value, 1000) }),
  ),
  cut_before: {
    doc: "closes the connection before the request is executed; not billed",
    stage: "connection",
  },
  cut_body: wire("closes the connection in the middle of the body; billed", () => ({ damage: "cut_body" })),
  truncated_json: wire("half of the JSON, with a matching content-length; billed", () => ({
    damage: "truncated",
  })),
  reply_lost: wire("resets the connection after the request was executed; billed", () => ({
    damage: "lost",
  })),
  shuffled: results("results in a different order", (texts, dice) =>
    texts
      .map((text) => ({ text, order: dice.below(2 ** 32) }))
      .toSorted((a, b) => a.order - b.order)
      .map(({ text }) => text),
  ),
  duplicated: results("one result in ten twice, at least one", (texts, dice) => {
    const sure = dice.below(texts.length);
    return texts.flatMap((text, i) => (i === sure || dice.chance(0.1) ? [text, text] : [text]));
  }),
  missing: results("one result in ten omitted, at least one; billed anyway", (texts, dice) => {
    const sure = dice.below(texts.length);
    return texts.filter((_, i) => i !== sure && !dice.chance(0.1));
  }),
  foreign: results("one extra result, for a record that was not sent", (texts) => [...texts, FOREIGN_RESULT]),
  legacy_errors: shape("errors in the legacy shape `{api_request_id, error_message}`", { form: "legacy" }),
  status_code_errors: shape("errors in the shape `{error, status_code}`", { form: "status_code" }),
  deprecated_fields: shape("errors that also have the deprecated `statusCode` and `body`", {
    deprecatedFields: true,
  }),
};

/** Every fault by its name. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  ...REFUSAL_FAULTS,
  ...DELIVERY_FAULTS,
  ...DISTORTION_FAULTS,
};
