import { type HashKey, below, chance, hash, pick } from "./hash.ts";

/** Employer as answers name it, with its domain. */
export type Company = ReturnType<typeof createCompanies>[number];

/** A job title as answers name it; the standard title of an odd one is null. */
export type Title = ReturnType<typeof titleOf>;

/** `industry|NAICS code|NAICS description|SIC code|SIC description|words that end a company's name` */
const INDUSTRIES = [
  "Hospital & Health Care|622110|General Medical and Surgical Hospitals|8062|General Medical and Surgical Hospitals|Health,Medical Center,Clinics",
  "Information Technology and Services|541512|Computer Systems Design Services|7373|Computer Integrated Systems Design|Systems,Technologies,Digital",
  "Construction|236220|Commercial and Institutional Building Construction|1542|General Contractors-Nonresidential Buildings|Construction,Builders,Contractors",
  "Retail|455211|Warehouse Clubs and Supercenters|5399|Miscellaneous General Merchandise Stores|Stores,Market,Outfitters",
  "Banking|522110|Commercial Banking|6022|State Commercial Banks|Bank,Trust,Savings",
  "Higher Education|611310|Colleges, Universities, and Professional Schools|8221|Colleges, Universities, and Professional Schools|University,College,Institute",
  "Restaurants|722511|Full-Service Restaurants|5812|Eating Places|Kitchen,Grill,Café",
  "Logistics and Supply Chain|484121|General Freight Trucking, Long-Distance, Truckload|4213|Trucking, Except Local|Logistics,Freight,Transport",
  "Law Practice|541110|Offices of Lawyers|8111|Legal Services|& Partners LLP,Law Group,Legal",
  "Accounting|541211|Offices of Certified Public Accountants|8721|Accounting, Auditing, and Bookkeeping Services|& Co. CPAs,Advisors,Accounting",
];
const COMPANY_WORDS =
  "Northwind,Summit,Cascade,Blue Ridge,Keystone,Pinnacle,Lakeside,Redwood,Evergreen,Harbor,Beacon,Granite,Silver Creek,Prairie,Sterling,Liberty,Pacific Crest,Great Lakes,Lone Star,Bayou,Copper Canyon,Piedmont,Tidewater,Golden Gate,High Plains,Old Dominion,Peachtree,Sunbelt,Rushmore,Cumberland,Allegheny,Cimarron,São Gabriel,Nørrebro,Zürcher,Crème".split(
    ",",
  );

/** `department: title=standard title=seniority`, from the first job on. */
const LADDERS = [
  "sales: Sales Associate=sales associate=entry; Account Executive=account executive=senior; Regional Sales Manager=sales manager=manager; Director of Sales=sales director=director; VP Sales=vice president of sales=vp; Chief Revenue Officer=chief revenue officer=cxo",
  "engineering: Software Engineer I=software engineer=entry; Sr. Software Engineer=senior software engineer=senior; Engineering Manager=engineering manager=manager; Director, Platform Engineering=engineering director=director; VP of Engineering=vice president of engineering=vp; CTO=chief technology officer=cxo",
  "finance: Staff Accountant=accountant=entry; Senior Financial Analyst=senior financial analyst=senior; Finance Manager=finance manager=manager; Controller=controller=director; VP Finance=vice president of finance=vp; CFO=chief financial officer=cxo",
  "health: Medical Assistant=medical assistant=entry; Registered Nurse, ICU=registered nurse=senior; Nurse Manager=nurse manager=manager; Director of Nursing=nursing director=director; Chief Nursing Officer=chief nursing officer=cxo",
  "education: Substitute Teacher=teacher=entry; 5th Grade Teacher=teacher=senior; Assistant Principal=assistant principal=manager; Principal=principal=director; Superintendent=superintendent=cxo",
  "operations: Warehouse Associate=warehouse associate=entry; Shift Lead=team lead=senior; Operations Manager=operations manager=manager; Plant Director=operations director=director; VP Supply Chain=vice president of supply chain=vp",
  "legal: Paralegal=paralegal=entry; Associate Attorney=attorney=senior; Counsel=counsel=manager; Partner=partner=owner; General Counsel=general counsel=cxo",
  "hospitality: Server=server=entry; Line Cook=cook=entry; Sous-Chef=chef=senior; Maître d’=host=senior; Executive Chef=executive chef=director",
];

/** Titles that break careless parsers. */
const ODD_TITLES = [
  "🚀 Growth Hacker 🚀",
  'Full-Stack "Ninja"',
  "C++ / C# Developer\\Architect",
  "Mom of 3 👩‍👩‍👧‍👦 | Realtor®",
  "営業部長 (Sales)",
  "Owner,\tSmith & Sons",
  "Nurse — nights\nand weekends",
  "مدير تسويق",
  "  Consultant  ",
];

const titleOf = (
  title: string,
  standard: string | null,
  seniority: string | null,
  department: string | null,
) => ({
  work_title: title,
  standard_work_title: standard,
  work_seniority_level: seniority,
  work_department: department,
});

/** Titles by department, from the first job on. */
export const ladders: readonly (readonly Title[])[] = LADDERS.map((line) => {
  const [department = "", steps = ""] = line.split(": ");
  return steps.split("; ").map((step) => {
    const [title = "", standard = "", seniority = ""] = step.split("=");
    return titleOf(title, standard, seniority, department);
  });
});
const oddTitles = ODD_TITLES.map((title) => titleOf(title, null, null, null));

/** Title at a step of a ladder; one in a hundred is odd, and a few jobs after the first two are at the top. */
export function titleAt(bits: number, ladder: readonly Title[], step: number): Title {
  if (chance(bits, 0.01)) return pick(oddTitles, (bits * 100) % 4294967296);
  const top = ladder.at(-1);
  if (top && step > 0 && chance(bits, 0.06)) return top;
  return ladder[Math.min(step + below(bits, 2), ladder.length - 1)] ?? pick(ladder, bits);
}

/** Every combination of the words for companies; the key decides which of their fields are unknown. */
export function createCompanies(key: HashKey) {
  const named = INDUSTRIES.flatMap((line) => {
    const [industry = "", naics = "", naicsText = "", sic = "", sicText = "", endings = ""] = line.split("|");
    return endings
      .split(",")
      .flatMap((end) => COMPANY_WORDS.map((word) => `${word} ${end}`))
      .map((name) => ({ name, industry, naics, naicsText, sic, sicText }));
  });
  return named.map(({ name, industry, naics, naicsText, sic, sicText }, number) => {
    const words = name
      .normalize("NFKD")
      .toLowerCase()
      .match(/[a-z0-9]+/g);
    const slug = (words ?? []).join("-");
    const known = (share: number, question: number, value: string) =>
      chance(hash(key, number, 700 + question), share) ? value : null;
    const members = {
      work_company_name: name,
      work_company_linkedin_url: known(0.8, 1, `https://www.linkedin.com/company/${slug}`),
      work_company_website: known(0.8, 2, `https://www.${slug}.example`),
      work_company_industry: known(0.95, 3, industry),
      work_company_naics_code: known(0.9, 4, naics),
      work_company_naics_description: known(0.9, 4, naicsText),
      work_company_sic_code: known(0.85, 5, sic),
      work_company_sic_description: known(0.85, 5, sicText),
    };
    return { industry, domain: `${slug}.example`, members };
  });
}
