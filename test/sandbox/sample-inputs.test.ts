import { describe, expect, it } from "vitest";
import { type SampleInput, sampleInputs } from "../../src/sandbox/sample-inputs.ts";
import { enrich, sandboxFor } from "./support.ts";

const options = { seed: 1, people: 10_000, rows: 8000 };
const rows = [...sampleInputs(options)];
const filled = (...values: (string | null)[]) =>
  values.filter((value) => value !== null && value.trim() !== "");
const content = ({ id: _id, updated_at: _at, ...rest }: SampleInput) => JSON.stringify(rest);

const values = (row: SampleInput) => Object.values(row).filter((value) => typeof value === "string");
const identifiers = (row: SampleInput) =>
  filled(row.email, row.work_email, row.phone, row.linkedin, row.street);

function toRecord(row: SampleInput): object {
  const fields = {
    record_id: String(row.id),
    first_name: row.first_name,
    last_name: row.last_name,
    linkedin_url: row.linkedin,
    address_line_1: row.street,
    city: row.city,
    state: row.state,
    zipcode: row.zip,
    emails: filled(row.email, row.work_email),
    phones: filled(row.phone),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => (value?.length ?? 0) > 0));
}

describe("sample inputs", () => {
  it("are a pure function of seed, population and row, numbered from 1", () => {
    expect([...sampleInputs({ ...options, rows: 500 })]).toEqual(rows.slice(0, 500));
    expect(rows.map((row) => row.id)).toEqual(Array.from({ length: 8000 }, (_, i) => i + 1));
    const other = new Set([...sampleInputs({ ...options, seed: 2, rows: 500 })].map(content));
    expect(
      rows.slice(0, 500).filter((row) => other.has(content(row)) && filled(row.email).length > 0),
    ).toEqual([]);
  });

  it("match the sandbox of the same seed and population for about 85 %", async () => {
    const sandbox = await sandboxFor({ people: options.people });
    let matched = 0;
    for (let start = 0; start < rows.length; start += 500) {
      const results = await enrich(sandbox, rows.slice(start, start + 500).map(toRecord));
      matched += results.filter((result) => result.is_match).length;
    }
    expect(matched / rows.length).toBeGreaterThan(0.83);
    expect(matched / rows.length).toBeLessThan(0.87);
  });

  it("have the dirt of real tables", () => {
    const share = (fits: (row: SampleInput) => boolean) => rows.filter(fits).length / rows.length;
    const contents = new Set<string>();
    const repeated = rows.filter((row) => {
      const isRepeated = contents.has(content(row)) && filled(row.email, row.phone).length > 0;
      contents.add(content(row));
      return isRepeated;
    });
    expect(repeated.length / rows.length).toBeGreaterThan(0.004);
    expect(repeated.length / rows.length).toBeLessThan(0.03);
    const nothing = share(
      (row) => identifiers(row).length === 0 && filled(row.first_name, row.last_name).length === 0,
    );
    const nameOnly = share(
      (row) => identifiers(row).length === 0 && filled(row.first_name, row.last_name).length > 0,
    );
    for (const rare of [nothing, nameOnly]) {
      expect(rare).toBeGreaterThan(0.002);
      expect(rare).toBeLessThan(0.04);
    }
    expect(share((row) => values(row).some((value) => value.trim() === ""))).toBeGreaterThan(0.01);
    expect(share((row) => row.work_email === null)).toBeGreaterThan(0.2);
    expect(share((row) => /^[A-Z]{3,}$/.test(row.last_name ?? ""))).toBeGreaterThan(0.005);
    expect(share((row) => /[^\p{ASCII}]/u.test(row.first_name ?? ""))).toBeGreaterThan(0.03);
    expect(rows.every((row) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(row.updated_at))).toBe(true);
  });

  it("continue past the size of the population", () => {
    const many = [...sampleInputs({ seed: 1, people: 50, rows: 300 })];
    expect(many).toHaveLength(300);
    expect(many.at(-1)?.id).toBe(300);
  });

  it("come one at a time: the first rows of a billion are there at once", () => {
    const first = sampleInputs({ seed: 1, people: 100_000_000, rows: 1_000_000_000 });
    expect(first.next().value).toMatchObject({ id: 1 });
    expect(first.next().value).toMatchObject({ id: 2 });
  });
});
