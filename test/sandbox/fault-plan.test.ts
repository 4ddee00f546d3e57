import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { FAULTS } from "../../src/sandbox/faults/catalog.ts";
import { parseFaults } from "../../src/sandbox/faults/plan.ts";
import { ask, sandboxWith } from "./fault-support.ts";
import { call, sandboxFor } from "./support.ts";

const problems = () => {
  try {
    parseFaults("unheard_of:0.5,500:7,!!");
  } catch (error) {
    return error instanceof Error && "problems" in error ? error.problems : error;
  }
  return null;
};

const run = async (seed: number) => {
  const sandbox = await sandboxFor({ seed, faults: parseFaults("500:0.3") });
  const statuses: number[] = [];
  for (let i = 0; i < 100; i++) statuses.push((await ask(sandbox, [])).status);
  return statuses;
};

describe("a plan", () => {
  it("reads name, value, rate, endpoint and request numbers", () => {
    expect(parseFaults("429:0.1, cut_body=x:0.05@/v2/enrich#3-9,slow=2000@enrich#5,500#7-")).toEqual([
      { fault: "429", rate: 0.1 },
      { fault: "cut_body", value: "x", rate: 0.05, endpoint: "/v2/enrich", from: 3, to: 9 },
      { fault: "slow", value: "2000", rate: 1, endpoint: "enrich", from: 5, to: 5 },
      { fault: "500", rate: 1, from: 7 },
    ]);
    expect(parseFaults("")).toEqual([]);
  });

  it("with mistakes is refused, all of them at once", () => {
    expect(problems()).toEqual([
      expect.objectContaining({
        path: "--faults unheard_of:0.5",
        message: expect.stringContaining("There is no fault"),
      }),
      expect.objectContaining({ path: "--faults 500:7", message: "The rate must be between 0 and 1." }),
      expect.objectContaining({ path: "--faults !!", message: "Not a fault rule." }),
    ]);
  });

  it("repeats with the seed, and hits the stated share", async () => {
    const [first, again, other] = [await run(1), await run(1), await run(2)];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
    const hits = first.filter((status) => status === 500).length;
    expect(hits).toBeGreaterThan(15);
    expect(hits).toBeLessThan(45);
  });

  it("hits only its endpoint and its requests, counted from when it was set", async () => {
    const sandbox = await sandboxWith("500@enrich#2-3");
    const statuses = async () => [
      (await call(sandbox, "/v1/resolve", { records: [] })).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
    ];
    expect(await statuses()).toEqual([200, 200, 500, 500, 200]);
    await call(sandbox, "/_sandbox/faults", { faults: "503#1" });
    expect(await statuses()).toEqual([503, 200, 200, 200, 200]);
  });
});

it("every fault of the catalog has a description and is documented", async () => {
  const docs = await readFile(new URL("../../docs/sandbox.md", import.meta.url), "utf8");
  for (const [name, { doc }] of Object.entries(FAULTS)) {
    expect(doc).not.toBe("");
    expect(docs).toContain(`| \`${name}\` | ${doc} |`);
  }
});
