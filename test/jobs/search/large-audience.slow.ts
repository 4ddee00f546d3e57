import { expect, test } from "vitest";
import { jobOf } from "../world.ts";
import { audiencesOf, searchesOfService, startAudience, storedMembers } from "./audience-world.ts";

test("an audience of 100,000 people is read in 1,000 overlapping pages, and stored exactly", async () => {
  const world = await startAudience("never", {
    people: 212_000,
    config: audiencesOf("women: { query: women, unlock: { max_billable: 200000 } }"),
  });
  const services = await world.services();
  let inFlight = 0;
  const seen = { pages: 0, mostInFlight: 0, pagesDuringOthers: 0 };
  const http: typeof services.http = {
    ...services.http,
    async request(call) {
      if (!call.path.includes("/results?")) return services.http.request(call);
      seen.pages += 1;
      if (inFlight > 0) seen.pagesDuringOthers += 1;
      inFlight += 1;
      seen.mostInFlight = Math.max(seen.mostInFlight, inFlight);
      try {
        return await services.http.request(call);
      } finally {
        inFlight -= 1;
      }
    },
  };
  const report = await world.run({}, { http });
  const [search] = await searchesOfService(world);
  const members = await storedMembers(world);
  expect(jobOf(report, "audiences")).toMatchObject({ status: "succeeded", records_received: members.length });
  expect(members.length).toBeGreaterThan(100_000);
  expect([search?.billable, new Set(members).size]).toEqual([members.length, members.length]);
  expect(seen.pages).toBe(Math.ceil(members.length / 100));
  expect(seen.mostInFlight).toBe(4);
  expect(seen.pagesDuringOthers).toBeGreaterThan(0.9 * seen.pages);
});
