import { testNights } from "./cases.ts";
import { put } from "./night.ts";
import type { Script } from "./scripted-service.ts";

const both = (resolve = "", enrich = "") => ({
  jobs: `{ resolve: { type: resolve, input: customers${resolve} },
    enrich: { type: enrich, input: customers, pid_from: resolve${enrich} } }`,
  input: "order_by: id",
});
const people = put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" });
const everyone = { resolve: ["Ann a@x", "Bob b@x"], enrich: ["p-ann Ann a@x", "p-bob Bob b@x"] };
const linked = "SELECT job, source_key, service_pid, match_score FROM identity_link";

/** Resolves Ann to another person. */
const otherAnn: Script = {
  result: (usual) => (usual["service_pid"] === "p-ann" ? { ...usual, service_pid: "p-anna" } : usual),
};

/** Refuses every row of resolve. */
const refusing: Script = {
  call: ({ endpoint }) =>
    endpoint === "resolve"
      ? { status: 422, body: { code: "validation_error", message: "no", api_request_id: "r" } }
      : undefined,
};

testNights("pid_from", {
  "sends the PID beside the mapped fields": [
    {
      config: both(),
      edit: people,
      sent: everyone,
      ends: { resolve: "2 read, 2 sent, 2 matched", enrich: "2 read, 2 sent, 2 matched" },
      tables: { "SELECT source_key, service_pid FROM identity_link": ["1|p-ann", "2|p-bob"] },
    },
    { ends: { resolve: "2 read, 2 unchanged", enrich: "2 read, 2 unchanged" } },
  ],
  "rows that aren't resolved yet wait": [
    {
      config: both(", max_records_per_run: 1"),
      edit: people,
      sent: { resolve: ["Ann a@x"], enrich: ["p-ann Ann a@x"] },
      ends: {
        resolve: "limited (max_records_per_run): 2 read, 1 sent, 1 remaining, 1 matched",
        enrich: "2 read, 1 waiting, 1 sent, 1 matched",
      },
    },
    { sent: { resolve: ["Bob b@x"], enrich: ["p-bob Bob b@x"] } },
  ],
  "a row that changed since it was resolved waits": [
    { config: both(), edit: people, sent: everyone },
    {
      edit: put(1, "Eve", { email: "a@x" }),
      flags: { jobs: ["enrich"] },
      ends: { enrich: "2 read, 1 unchanged, 1 waiting" },
    },
    { sent: { resolve: ["Eve a@x"], enrich: ["p-eve Eve a@x"] } },
  ],
  "a change that resolve doesn't send doesn't wait": [
    { config: both(), edit: people, sent: everyone },
    {
      edit: put(1, "Ann", { email: "a@x", city: "Rome" }),
      sent: { enrich: ["p-ann Ann a@x Rome"] },
      ends: { resolve: "2 read, 2 unchanged", enrich: "2 read, 1 unchanged, 1 sent, 1 matched" },
    },
  ],
  "a row that resolve rejects is sent without a PID": [
    {
      config: both(),
      edit: put(1, "Ann") + put(2, "Bob", { email: "b@x" }),
      sent: { resolve: ["Bob b@x"], enrich: ["Ann", "p-bob Bob b@x"] },
      ends: {
        resolve: "2 read, 1 sent, 1 rejected_before_sending, 1 matched, 1 rejected",
        enrich: "2 read, 2 sent, 2 matched",
      },
    },
    {},
    {
      edit: put(1, "Ann", { email: "a@x" }),
      sent: { resolve: ["Ann a@x"], enrich: ["p-ann Ann a@x"] },
    },
  ],
  "a row whose reject is retried is sent again with the PID that it gets": [
    {
      config: both(),
      edit: put(1, "Ann", { email: "a@x", city: "Rome" }),
      service: refusing,
      sent: { resolve: ["Ann a@x"], enrich: ["Ann a@x Rome"] },
    },
    {
      commands: [["rejects", "retry", "--yes"]],
      sent: { resolve: ["Ann a@x"], enrich: ["p-ann Ann a@x Rome"] },
    },
    { ends: { resolve: "1 read, 1 unchanged", enrich: "1 read, 1 unchanged" } },
  ],
  "a PID that changes is sent again, one that stays isn't": [
    { config: both(", refresh_after: 10d"), edit: people, sent: everyone },
    {
      days: 10,
      service: otherAnn,
      sent: { resolve: ["Ann a@x", "Bob b@x"], enrich: ["p-anna Ann a@x"] },
      ends: { resolve: "2 read, 2 sent, 2 matched", enrich: "2 read, 1 unchanged, 1 sent, 1 matched" },
      tables: { "SELECT source_key, service_pid FROM identity_link": ["1|p-anna", "2|p-bob"] },
    },
    {},
  ],
  "the answer of a sent PID may be another person, whom an alias names": [
    {
      config: both(),
      edit: put(1, "Ann", { email: "a@x" }),
      service: {
        result: (usual, _record, { endpoint }) =>
          endpoint === "enrich" ? { ...usual, service_pid: "p-merged" } : usual,
      },
      sent: { resolve: ["Ann a@x"], enrich: ["p-ann Ann a@x"] },
      tables: {
        "SELECT sent_service_pid, returned_service_pid FROM person_pid_alias": ["p-ann|p-merged"],
        "SELECT service_pid FROM person": ["p-merged"],
      },
    },
  ],
  "a failure of resolve skips the job that needs it": [
    {
      config: both(),
      edit: people,
      service: { call: () => ({ status: 403 }) },
      sent: { resolve: ["Ann a@x", "Bob b@x"] },
      ends: "failed",
      tables: { [linked]: [] },
    },
    { sent: everyone },
  ],
});
