import { type HashKey, below, chance, hash, pick } from "./hash.ts";
import { COMPANY_WORDS, INDUSTRIES, LADDERS, ODD_TITLES } from "./companies-data.ts";

/** An employer. */
export interface Company {
  readonly domain: string;
  readonly industry: string;
  /** JSON text of the eight `work_company_…` members. */
  readonly members: string;
}

/** A step of a career. */
export interface Title {
  readonly title: string;
  /** JSON text of title, standard title, seniority and department. */
  readonly members: string;
}

function companyMembers(fields: Record<string, string | null>): string {
  return JSON.stringify(fields).slice(1, -1);
}

/** Every combination of the words for companies; which fields of a company are unknown depends on the key. */
export function createCompanies(key: HashKey): readonly Company[] {
  const companies: Company[] = [];
  for (const line of INDUSTRIES) {
    const [industry = "", naics = "", naicsText = "", sic = "", sicText = "", endings = ""] = line.split("|");
    for (const ending of endings.split(",")) {
      for (const word of COMPANY_WORDS) {
        const number = companies.length;
        const name = `${word} ${ending}`;
        const slug = name
          .normalize("NFKD")
          .toLowerCase()
          .replace(/[^a-z0-9 ]/g, "")
          .trim()
          .replace(/ +/g, "-");
        const known = (share: number, question: number, value: string) =>
          chance(hash(key, number, 700 + question), share) ? value : null;
        companies.push({
          domain: `${slug}.example`,
          industry,
          members: companyMembers({
            work_company_name: name,
            work_company_linkedin_url: known(0.8, 1, `https://www.linkedin.com/company/${slug}`),
            work_company_website: known(0.8, 2, `https://www.${slug}.example`),
            work_company_industry: known(0.95, 3, industry),
            work_company_naics_code: known(0.9, 4, naics),
            work_company_naics_description: known(0.9, 4, naicsText),
            work_company_sic_code: known(0.85, 5, sic),
            work_company_sic_description: known(0.85, 5, sicText),
          }),
        });
      }
    }
  }
  return companies;
}

/** Titles by department, from the first job on. */
export const ladders: readonly (readonly Title[])[] = LADDERS.map((line) => {
  const [department = "", steps = ""] = line.split(": ");
  return steps.split("; ").map((step) => {
    const [title = "", standard = "", seniority = ""] = step.split("=");
    return {
      title,
      members: JSON.stringify({
        work_title: title,
        standard_work_title: standard,
        work_seniority_level: seniority,
        work_department: department,
      }).slice(1, -1),
    };
  });
});

const oddTitles: readonly Title[] = ODD_TITLES.map((title) => ({
  title,
  members: JSON.stringify({
    work_title: title,
    standard_work_title: null,
    work_seniority_level: null,
    work_department: null,
  }).slice(1, -1),
}));

/** The title at a step of a ladder; one in a hundred is odd. */
export function titleAt(bits: number, ladder: readonly Title[], step: number): Title {
  if (chance(bits, 0.01)) return pick(oddTitles, (bits * 100) % 4294967296);
  const title = ladder[Math.min(step + below(bits, 2), ladder.length - 1)];
  if (!title) throw new Error("A ladder has steps.");
  return title;
}
