import { describe, expect, test } from "vitest";
import { erase, findTraces, nobody } from "./erased-couple.ts";
import { commitPersons, wholePerson } from "./person-updates.ts";
import { gist, type Responder, runNight } from "./nights.ts";
import { enrichSpec, makePeople, people, type PersonRow } from "./people.ts";
import { columnOf, type Context, type GetContext } from "./context.ts";

/** Refreshes after an erasure. */
const REFRESHES = 10;

/** Number of digits of a key, so that no key is part of another one. */
const DIGITS = 3;

const nameOf = (i: number) => String(i).padStart(DIGITS, "0");
const pidOf = (i: number) => `p-${nameOf(i)}`;

/** People `0` to `count - 1`, whose answers list the given addresses. */
interface Neighbours {
  readonly count: number;
  readonly addressesOf: (i: number) => readonly string[];
  /** Address in the input. */
  readonly inputAddressOf?: (i: number) => string;
}

function answerOf({ addressesOf }: Neighbours): Responder {
  return ({ keys: [key] }) => {
    const i = Number(key?.slice("key-".length));
    const addresses = addressesOf(i).map((email_address, rank) => ({ email_rank: rank + 1, email_address }));
    return {
      pid: pidOf(i),
      person: wholePerson(pidOf(i), { full_name: `Name ${nameOf(i)}`, personal_emails: addresses }),
    };
  };
}

async function makeNeighbours(context: Context, neighbours: Neighbours): Promise<Responder> {
  const { count, inputAddressOf = (i) => `own-${nameOf(i)}@in.example` } = neighbours;
  const rows = Array.from(
    { length: count },
    (_, i): PersonRow => ({ id: `key-${nameOf(i)}`, first_name: nameOf(i), email: inputAddressOf(i) }),
  );
  await makePeople(context, rows);
  const answer = answerOf(neighbours);
  await runNight(context, enrichSpec(), answer);
  expect(await columnOf(context, "SELECT count(*) FROM person_data.person")).toEqual([String(count)]);
  return answer;
}

/** Refreshes everybody again and again: one person stays out, nobody else does. */
async function refreshWithout(
  context: Context,
  { count, gone, answer }: { readonly count: number; readonly gone: number; readonly answer: Responder },
): Promise<void> {
  const others = Array.from({ length: count }, (_, i) => i).filter((i) => i !== gone);
  const subjects = await columnOf(context, "SELECT count(*) FROM person_data_ops.erasure_subject");
  const expectOthersOnly = async () => {
    for (const id of await context.warehouse.openErasures()) await context.warehouse.removeErased(id);
    expect(await columnOf(context, "SELECT service_pid FROM person_data.person ORDER BY 1")).toEqual(
      others.map(pidOf),
    );
    expect(
      await columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1"),
    ).toEqual(others.map((i) => `key-${nameOf(i)}`));
    expect(await findTraces(context, [pidOf(gone), `key-${nameOf(gone)}`, `Name ${nameOf(gone)}`])).toEqual(
      [],
    );
  };
  await expectOthersOnly();
  for (let refresh = 0; refresh < REFRESHES; refresh++) {
    const { counts, sent } = await runNight(context, enrichSpec({ resend: true }), answer);
    expect(gist(counts)).toMatchObject({ read: count, suppressed: 1, toSend: count - 1 });
    expect(Object.keys(sent)).toEqual(others.map((i) => `key-${nameOf(i)}`));
    await expectOthersOnly();
  }
  expect(await columnOf(context, "SELECT count(*) FROM person_data_ops.erasure_subject")).toEqual(subjects);
}

/** People i and i + 1 share an address. */
const pairsOf = (i: number) => [i, i + 1].map((pair) => `pair-${nameOf(pair)}@home.example`);

/** The first three share an address. */
const mostlyOwn = (i: number) => [i < 3 ? "info@firm.example" : `own-${nameOf(i)}@home.example`];

/** Tests of people who share addresses with an erased person. */
export function describeErasedNeighbours(getContext: GetContext): void {
  describe("an erasure of a person who shares an address", () => {
    test("with 60 colleagues removes only this person, through ten refreshes", async () => {
      const context = getContext();
      const office = "info@firm.example";
      const addressesOf = (i: number) => [`own-${nameOf(i)}@home.example`, office];
      const answer = await makeNeighbours(context, { count: 60, addressesOf });
      const found = await context.warehouse.findPeople({ ...nobody, pids: [pidOf(0)] }, [people]);
      expect(found.people.emails).toEqual(["own-000@home.example", "own-000@in.example"]);
      expect(found.sharedEmails).toEqual([office]);
      await erase(context, { pids: [pidOf(0)] });
      await refreshWithout(context, { count: 60, gone: 0, answer });
      expect(
        await columnOf(
          context,
          `SELECT count(*) FROM person_data.person_email WHERE email_address = '${office}'`,
        ),
      ).toEqual(["59"]);
    });

    test("with a neighbour on each side removes only this person, through ten refreshes", async () => {
      const context = getContext();
      const answer = await makeNeighbours(context, { count: 8, addressesOf: pairsOf });
      const { people: found } = await erase(context, { pids: [pidOf(3)] });
      expect(found.emails).toEqual(["own-003@in.example"]);
      await refreshWithout(context, { count: 8, gone: 3, answer });
    });

    test("in the input only removes only this person", async () => {
      const context = getContext();
      const answer = await makeNeighbours(context, {
        count: 8,
        addressesOf: (i) => [`own-${nameOf(i)}@home.example`],
        inputAddressOf: (i) => (i % 2 === 0 ? "INFO@firm.example" : "info@firm.example "),
      });
      const row = { source: "people", sourceKey: "key-005" };
      const found = await context.warehouse.findPeople({ ...nobody, rows: [row] }, [people]);
      expect(found.people.emails).toEqual(["own-005@home.example"]);
      expect(found.sharedEmails).toEqual(["info@firm.example"]);
      await erase(context, { rows: [row] });
      await refreshWithout(context, { count: 8, gone: 5, answer });
    });

    test("removes everyone with it if the user names the address", async () => {
      const context = getContext();
      const answer = await makeNeighbours(context, { count: 5, addressesOf: mostlyOwn });
      const { people: found } = await erase(context, { emails: ["Info@Firm.example"] });
      expect(found.pids).toEqual([0, 1, 2].map(pidOf));
      expect(found.emails).toContain("info@firm.example");
      await runNight(context, enrichSpec({ resend: true }), answer);
      expect(await columnOf(context, "SELECT service_pid FROM person_data.person ORDER BY 1")).toEqual(
        [3, 4].map(pidOf),
      );
    });

    test("leaves an erased address out of the lists of people who are stored later", async () => {
      const context = getContext();
      await makePeople(context, []);
      await erase(context, { emails: ["ann@home.example"] });
      const emails = ["Ann@Home.example ", "dee@home.example"];
      const dee = wholePerson("p-dee", {
        full_name: "Dee Poe",
        professional_emails: emails.map((email_address, i) => ({ email_rank: i + 1, email_address })),
      });
      for (const day of [1, 2]) {
        const answeredAt = `2026-11-0${day}T00:00:00.000001+00:00`;
        await commitPersons(context, [dee], { keys: ["row-1"], answeredAt });
        expect(await columnOf(context, "SELECT email_address FROM person_data.person_email")).toEqual([
          "dee@home.example",
        ]);
        expect(await columnOf(context, "SELECT full_name FROM person_data.person")).toEqual(["Dee Poe"]);
      }
      expect(await findTraces(context, ["ann@"])).toEqual([]);
    });
  });
}
