import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const linked = "SELECT source_key, service_pid FROM identity_link";

testNights("a response that repeats the last one", {
  "never links a row to the person of another request": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      edit: names("Cid", "Dan"),
      service: { call: () => "repeated" },
      sent: "any",
      ends: "any",
      tables: {
        [linked]: [],
        "SELECT source_key FROM enrichment WHERE is_present": [],
        "SELECT source_key, service_pid FROM match_history WHERE valid_to IS NULL AND is_match AND service_pid NOT IN ('p-ann', 'p-bob')":
          [],
      },
    },
  ],
  "is no answer: the call is made once more": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      edit: names("Cid", "Dan"),
      service: { call: ({ index }) => (index === 0 ? "repeated" : undefined) },
      sent: ["Cid", "Cid", "Dan", "Dan"],
      ends: "2 read, 2 sent, 2 matched",
      tables: { [linked]: ["1|p-cid", "2|p-dan"] },
    },
  ],
  "of the same contents doesn't count as a new answer": [
    { edit: names("Ann"), sent: ["Ann"] },
    {
      flags: { resend: true },
      service: { call: () => "repeated" },
      sent: ["Ann", "Ann"],
      ends: "failed",
      tables: { [linked]: ["1|p-ann"] },
    },
  ],
});

for (const pid of [null, "  ", 42]) {
  for (const type of ["enrich", "resolve"] as const) {
    testNights("a match without a usable PID", {
      [`(${JSON.stringify(pid)}, ${type}) is rejected`]: [
        {
          config: { jobs: `{ one: { type: ${type}, input: customers } }` },
          edit: put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" }),
          service: {
            result: (usual: Readonly<Record<string, unknown>>) =>
              usual["service_pid"] === "p-ann" ? { ...usual, service_pid: pid } : usual,
          },
          sent: ["Ann a@x", "Bob b@x"],
          ends: "2 read, 2 sent, 1 matched, 1 rejected",
          tables: {
            "SELECT source_key, stage, code FROM reject": ["1|answer|no_pid"],
            [linked]: ["2|p-bob"],
          },
        },
        { ends: "2 read, 2 unchanged" },
        {
          commands: [["rejects", "retry", "--code", "no_pid", "--yes"]],
          sent: ["Ann a@x"],
          tables: { [linked]: ["1|p-ann", "2|p-bob"], "SELECT resolved_at IS NULL FROM reject": ["f"] },
        },
      ],
    });
  }
}
