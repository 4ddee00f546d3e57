import { describe, expect, it } from "vitest";
import { spellZone } from "../../src/schedule/zone.ts";

describe("the spelling of a zone", () => {
  it("is UTC for everything that never was anything else", () => {
    const names =
      "UTC utc Etc/UTC etc/utc UCT Etc/UCT Zulu Etc/Zulu Universal GMT gmt Etc/GMT GMT0 GMT+0 GMT-0 Etc/GMT+0 Greenwich";
    for (const name of names.split(" ")) expect([name, spellZone(name)]).toEqual([name, "UTC"]);
  });

  it("is IANA's for every zone there is, in whatever case it was written", () => {
    for (const name of Intl.supportedValuesOf("timeZone")) {
      const spelled = [spellZone(name), spellZone(name.toLowerCase()), spellZone(name.toUpperCase())];
      expect(spelled).toEqual(name === "UTC" ? ["UTC", "UTC", "UTC"] : [name, name, name]);
    }
  });

  it("keeps other names of a zone, and offsets", () => {
    const names =
      "Asia/Calcutta Asia/Kolkata Europe/Kyiv US/Eastern America/Knox_IN America/Indiana/Knox Brazil/DeNoronha Australia/NSW " +
      "Mexico/BajaSur Chile/EasterIsland GB GB-Eire NZ-CHAT W-SU PRC EST EST5EDT Etc/GMT-14 Etc/GMT+1 America/Port-au-Prince";
    for (const name of names.split(" ")) {
      expect([spellZone(name), spellZone(name.toLowerCase())]).toEqual([name, name]);
    }
  });
});
