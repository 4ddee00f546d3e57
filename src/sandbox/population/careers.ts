import { BASE_DAY, dayText, monthText, occurrences } from "./calendar.ts";
import { type Company, createCompanies, ladders, type Title, titleAt } from "./companies.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick } from "./hash.ts";
import type { Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";
import { STREAM } from "./streams.ts";

/** Somebody's present job. */
export interface CurrentJob {
  readonly title: string;
  readonly company: Company;
}

/** Who works, worked or retired where. Jobs are numbered from the first (0) on. */
export interface Careers {
  jobCount(index: number, day: number): number;
  companyOf(index: number, job: number): Company;
  currentJob(index: number, day: number): CurrentJob | null;
  isRetired(index: number): boolean;
  /** JSON text of a person's `work_experience`, newest first. */
  historyText(index: number, day: number): string;
}

const YEAR = 365.25;
/** Average days between two new jobs: about 1.5 % of the people change in a month. */
const NEW_JOB_EVERY_DAYS = 2000;
const EMPLOYMENT = [
  '"full_time"',
  '"full_time"',
  '"full_time"',
  '"part_time"',
  '"contract"',
  "null",
] as const;
/** Most jobs that an answer lists. */
const LISTED_JOBS = 8;

interface Career {
  readonly startDay: number;
  /** Where the jobs known at the base day end: that day, or retirement. */
  readonly endDay: number;
  readonly retired: boolean;
  readonly jobsAtBase: number;
}

/** A date as profiles state it, as JSON text: mostly a month, sometimes a day or only a year. */
function dateText(bits: number, day: number): string {
  if (chance(bits, 0.75)) return `"${monthText(day)}"`;
  return chance(bits, 0.92) ? `"${dayText(day)}"` : `"${dayText(day).slice(0, 4)}"`;
}

/** The careers of a population. */
export function createCareers(key: HashKey, identifiers: Identifiers, families: Families): Careers {
  const companies = createCompanies(key);
  const ask = (index: number, question: number) => hash(key, index, STREAM.career + question);
  const askJob = (index: number, job: number, question: number) =>
    hash(key, index, STREAM.jobs + job * 16 + question);

  const careerOf = (index: number): Career => {
    const birthDay = families.birthDayOf(index);
    const age = (BASE_DAY - birthDay) / YEAR;
    const retired = age > 66 && chance(ask(index, 0), 0.8);
    const startDay = birthDay + Math.floor((17.5 + below(ask(index, 1), 7)) * YEAR);
    const endDay = retired ? birthDay + Math.floor((60 + below(ask(index, 2), 6)) * YEAR) : BASE_DAY;
    const years = (endDay - startDay) / YEAR;
    const hasCareer = years > 0.5 && !chance(ask(index, 3), 0.1);
    const jobsAtBase = hasCareer ? 1 + below(ask(index, 4), Math.min(6, 2 + years / 5)) : 0;
    return { startDay, endDay, retired, jobsAtBase };
  };
  const newJobDays = (index: number, career: Career, day: number) =>
    career.retired || career.jobsAtBase === 0
      ? []
      : occurrences(key, index, STREAM.newJobs, NEW_JOB_EVERY_DAYS, day);
  const startOf = (index: number, career: Career, newDays: readonly number[], job: number): number => {
    const { startDay, endDay, jobsAtBase } = career;
    if (job >= jobsAtBase) return newDays[job - jobsAtBase] ?? endDay;
    const stretch = (endDay - startDay) / jobsAtBase;
    return Math.floor(startDay + stretch * job + below(askJob(index, job, 0), stretch * 0.5));
  };
  const companyOf = (index: number, job: number) => pick(companies, askJob(index, job, 1));
  const titleOf = (index: number, job: number): Title => {
    const changedField = chance(askJob(index, job, 2), 0.15);
    return titleAt(
      askJob(index, job, 3),
      pick(ladders, changedField ? askJob(index, job, 4) : ask(index, 5)),
      job >> 1,
    );
  };
  const endOf = (index: number, career: Career, newDays: readonly number[], job: number): number | null => {
    const last = career.jobsAtBase + newDays.length - 1;
    if (job < last) {
      const next = startOf(index, career, newDays, job + 1);
      return Math.max(startOf(index, career, newDays, job), next - below(askJob(index, job, 5), 90));
    }
    if (career.retired) return career.endDay;
    const leftWithoutNext = newDays.length === 0 && chance(ask(index, 6), 0.06);
    return leftWithoutNext ? career.endDay : null;
  };
  const jobText = (
    index: number,
    career: Career,
    newDays: readonly number[],
    job: number,
    rank: number,
  ): string => {
    const bits = askJob(index, job, 6);
    const endDay = endOf(index, career, newDays, job);
    const start = chance(bits, 0.05) ? "null" : dateText(bits, startOf(index, career, newDays, job));
    const end = endDay === null ? "null" : dateText(bits, endDay);
    const city = pick(cities, askJob(index, job, 7));
    const place = chance(askJob(index, job, 8), 0.3)
      ? ',"work_city":null,"work_state":null,"work_country":null}'
      : `,"work_city":"${city.name}","work_state":"${city.state}","work_country":"United States"}`;
    return `{"experience_rank":${rank},"service_experience_id":"${identifiers.opaqueId("w-", STREAM.workId, index, job & 15)}",${companyOf(index, job).members},${titleOf(index, job).members},"work_employment_type":${pick(EMPLOYMENT, askJob(index, job, 9))},"work_status":${endDay === null ? '"current"' : '"previous"'},"work_start_date":${start},"work_end_date":${end}${place}`;
  };

  return {
    companyOf,
    jobCount(index, day) {
      const career = careerOf(index);
      return career.jobsAtBase + newJobDays(index, career, day).length;
    },
    currentJob(index, day) {
      const career = careerOf(index);
      const newDays = newJobDays(index, career, day);
      const job = career.jobsAtBase + newDays.length - 1;
      if (job < 0 || endOf(index, career, newDays, job) !== null) return null;
      return { title: titleOf(index, job).title, company: companyOf(index, job) };
    },
    isRetired: (index) => careerOf(index).retired,
    historyText(index, day) {
      const career = careerOf(index);
      const newDays = newJobDays(index, career, day);
      const count = career.jobsAtBase + newDays.length;
      let text = "[";
      let rank = 0;
      for (let job = count - 1; job >= Math.max(0, count - LISTED_JOBS); job--) {
        if (rank === 0 || !chance(askJob(index, job, 10), 0.03)) rank += 1; // else an equal rank
        text += (text === "[" ? "" : ",") + jobText(index, career, newDays, job, rank);
      }
      return `${text}]`;
    },
  };
}
