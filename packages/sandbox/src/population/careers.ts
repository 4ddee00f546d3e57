import { BASE_DAY, dayText, keepLast, occurrences } from "./calendar.ts";
import { createCompanies, ladders, type Title, titleAt } from "./companies.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick, STREAM } from "./hash.ts";
import type { Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";

const YEAR = 365.25;
/** Average days between two new jobs: about 1.5 % of the people in a month. */
const NEW_JOB_EVERY_DAYS = 2000;
const EMPLOYMENT = ["full_time", "full_time", "full_time", "part_time", "contract", null];
/** Maximum number of jobs in an answer. */
const LISTED_JOBS = 8;

interface Career {
  readonly isRetired: boolean;
  /** Start of each job, ascending. */
  readonly starts: readonly number[];
  /** End of the last job; null while it lasts. */
  readonly endDay: number | null;
}

/** A date as profiles state it: mostly a month, sometimes a day or only a year. */
function dateText(bits: number, day: number): string {
  const length = chance(bits, 0.75) ? 7 : chance(bits, 0.92) ? 10 : 4;
  return dayText(day).slice(0, length);
}

export type Careers = ReturnType<typeof createCareers>;

/** Makes the jobs of a population, numbered from the first (0) on. */
export function createCareers(key: HashKey, identifiers: Identifiers, families: Families) {
  const companies = createCompanies(key);
  const ask = (index: number, question: number) => hash(key, index, STREAM.career + question);
  const askJob = (index: number, job: number, question: number) =>
    hash(key, index, STREAM.jobs + job * 16 + question);

  const careerOf = keepLast((index: number, day: number): Career => {
    const birthDay = families.birthDayOf(index);
    const isRetired = (BASE_DAY - birthDay) / YEAR > 66 && chance(ask(index, 0), 0.8);
    const startDay = birthDay + Math.floor((17.5 + below(ask(index, 1), 7)) * YEAR);
    const endDay = isRetired ? birthDay + Math.floor((60 + below(ask(index, 2), 6)) * YEAR) : BASE_DAY;
    const years = (endDay - startDay) / YEAR;
    const hasCareer = years > 0.5 && !chance(ask(index, 3), 0.1);
    const count = hasCareer ? 1 + below(ask(index, 4), Math.min(6, 2 + years / 5)) : 0;
    const stretch = (endDay - startDay) / count;
    const starts = Array.from({ length: count }, (_, job) =>
      Math.floor(startDay + stretch * job + below(askJob(index, job, 0), stretch * 0.5)),
    );
    if (isRetired || count === 0) return { isRetired, starts, endDay };
    const later = occurrences(key, index, STREAM.newJobs, NEW_JOB_EVERY_DAYS, day);
    const isBetweenJobs = later.length === 0 && chance(ask(index, 6), 0.06);
    return { isRetired, starts: [...starts, ...later], endDay: isBetweenJobs ? endDay : null };
  });
  const companyOf = (index: number, job: number) => pick(companies, askJob(index, job, 1));
  const titleOf = (index: number, job: number): Title => {
    const changedField = chance(askJob(index, job, 2), 0.15);
    const ladder = pick(ladders, changedField ? askJob(index, job, 4) : ask(index, 5));
    return titleAt(askJob(index, job, 3), ladder, job >> 1);
  };
  const jobOf = (index: number, { starts, endDay }: Career, job: number, rank: number) => {
    const bits = askJob(index, job, 6);
    const startDay = starts[job] ?? BASE_DAY;
    const next = starts[job + 1];
    const end = next === undefined ? endDay : Math.max(startDay, next - below(askJob(index, job, 5), 90));
    const { name, state } = pick(cities, askJob(index, job, 7));
    const isPlaced = !chance(askJob(index, job, 8), 0.3);
    return {
      experience_rank: rank,
      service_experience_id: identifiers.opaqueId("w-", STREAM.workId, index, job & 15),
      ...companyOf(index, job).members,
      ...titleOf(index, job),
      work_employment_type: pick(EMPLOYMENT, askJob(index, job, 9)),
      work_status: end === null ? "current" : "previous",
      work_start_date: chance(bits, 0.05) ? null : dateText(bits, startDay),
      work_end_date: end === null ? null : dateText(bits, end),
      work_city: isPlaced ? name : null,
      work_state: isPlaced ? state : null,
      work_country: isPlaced ? "United States" : null,
    };
  };

  return {
    companies,
    companyOf,
    jobCount: (index: number, day: number) => careerOf(index, day).starts.length,
    /** Title and company of the present job; null without one. */
    currentJob(index: number, day: number) {
      const { starts, endDay } = careerOf(index, day);
      if (starts.length === 0 || endDay !== null) return null;
      const job = starts.length - 1;
      return { ...titleOf(index, job), company: companyOf(index, job) };
    },
    isRetired: (index: number, day: number) => careerOf(index, day).isRetired,
    /** `work_experience`, newest first. */
    history(index: number, day: number) {
      const career = careerOf(index, day);
      let rank = 0;
      const newest = Array.from(career.starts.keys()).toReversed().slice(0, LISTED_JOBS);
      return newest.map((job) => {
        // A few jobs share the rank of the one before.
        if (rank === 0 || !chance(askJob(index, job, 10), 0.03)) rank += 1;
        return jobOf(index, career, job, rank);
      });
    },
  };
}
