import { describe, expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { names, openWorld, put } from "./night.ts";
import type { Result, Script } from "./scripted-service.ts";

const addresses = (list: readonly string[]) =>
  list.map((email_address, i) => ({ email_rank: i + 1, email_address }));
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i + 1);

/** Number of the person of a result, such as 7 of `p-ann7`. */
function numberOf({ service_pid: pid }: Result): number {
  return Number(typeof pid === "string" ? pid.replace(/\D+/u, "") : 0);
}

const colleagues: Script = {
  result: (usual) => ({ ...usual, professional_emails: addresses(["info@firm.example"]) }),
};

/** Each person has an address of the next one. */
const neighbors: Script = {
  result: (usual) => {
    const i = numberOf(usual);
    return { ...usual, personal_emails: addresses([`house${i}@home.example`, `house${i + 1}@home.example`]) };
  },
};

/** Bob's answer has a field that the interface doesn't name. */
const mentioning = (text: string): Script => ({
  result: (usual) =>
    usual["service_pid"] === "p-bob" ? { ...usual, household: { members: [text, "p-bob"] } } : usual,
});

describe("an erasure of one of several people with a shared address", () => {
  test("takes exactly one of sixty colleagues, through ten refreshes", async () => {
    const world = await openWorld();
    const edit = numbers(60)
      .map((i) => put(i, `Ann${i}`, { email: `ann${i}@home.example` }))
      .join("");
    await world.night({ edit, service: colleagues });
    await world.command(["erase", "--source-key", "customers/17", "--yes"]);
    for (let night = 1; night <= 10; night++) {
      const { sent, report } = await world.night({ flags: { resend: true }, service: colleagues });
      expect([sent.enrich?.length, report?.status]).toEqual([59, "succeeded"]);
      expect(await world.lines("SELECT count(*) FROM person")).toEqual(["59"]);
      expect(await world.lines("SELECT count(*) FROM enrichment WHERE is_present")).toEqual(["59"]);
      const shared = "SELECT count(*) FROM person_email WHERE email_address = 'info@firm.example'";
      expect(await world.lines(shared)).toEqual(["59"]);
    }
    expect(await world.lines("SELECT service_pid FROM person WHERE service_pid = 'p-ann17'")).toEqual([]);
  });

  test("takes exactly one of a chain of eight neighbors, through ten refreshes", async () => {
    const world = await openWorld();
    const edit = numbers(8)
      .map((i) => put(i, `Ann${i}`, { email: `house${i}@home.example` }))
      .join("");
    await world.night({ edit, service: neighbors });
    await world.command(["erase", "--source-key", "customers/1", "--yes"]);
    for (let night = 1; night <= 10; night++) {
      const { sent } = await world.night({ flags: { resend: true }, service: neighbors });
      expect(sent.enrich).toHaveLength(7);
      expect(await world.lines("SELECT count(*) FROM person")).toEqual(["7"]);
    }
  });
});

const has = (list: Readonly<Record<string, readonly string[]>>): Script => ({
  result: (usual) => ({
    ...usual,
    professional_emails: addresses(list[String(usual["service_pid"])] ?? []),
  }),
});

const office = has({ "p-ann": ["info@firm.example"], "p-bob": ["INFO@firm.example "] });
const late = has({ "p-dee": ["Ann@Home.example ", "dee@home.example"] });
const stored = {
  "SELECT email_address FROM person_email WHERE email_type = 'professional'": ["dee@home.example"],
};
testNights("an erased address", {
  "takes everybody who has it, if the user names it": [
    { edit: names("Ann", "Bob", "Cid"), service: office, sent: ["Ann", "Bob", "Cid"] },
    {
      commands: [["erase", "--email", "Info@Firm.example", "--yes"]],
      flags: { resend: true },
      service: office,
      sent: ["Cid"],
      tables: { "SELECT service_pid FROM person": ["p-cid"] },
    },
  ],
  "is left out of the lists of people who are stored later": [
    {
      commands: [["erase", "--email", "ann@home.example", "--yes", "--ignore-missing"]],
      edit: names("Dee"),
      service: late,
      sent: ["Dee"],
      tables: stored,
    },
    { flags: { resend: true }, service: late, sent: ["Dee"], tables: stored },
  ],
});

const extras = "SELECT service_pid, _extra IS NULL FROM person";
for (const { kind, flag, value, text } of [
  { kind: "PID", flag: "--pid", value: "p-ann", text: "p-ann" },
  { kind: "address", flag: "--email", value: "ann@home.example", text: "call ann@home.example" },
]) {
  testNights("a text about an erased person", {
    [`in another person's _extra is removed with it, and stays away (${kind})`]: [
      {
        edit: put(1, "Ann", { email: "ann@home.example" }) + put(2, "Bob"),
        service: mentioning(text),
        sent: ["Ann ann@home.example", "Bob"],
        tables: { [extras]: ["p-ann|t", "p-bob|f"] },
      },
      {
        commands: [["erase", flag, value, "--yes"]],
        ends: "2 read, 1 unchanged, 1 suppressed",
        tables: { [extras]: ["p-bob|t"] },
      },
      {
        flags: { resend: true },
        service: mentioning(text),
        sent: ["Bob"],
        tables: { [extras]: ["p-bob|t"] },
      },
    ],
  });
}
