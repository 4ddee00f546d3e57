import { yearOf } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick, STREAM } from "./hash.ts";
import type { Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";

/** Levels in their order, with the age at the start and the years. */
export const LEVELS = [
  { name: "high_school", age: 14, years: 4, words: "High School Diploma" },
  { name: "bachelors", age: 18, years: 4, words: "Bachelor of Science (B.S.)" },
  { name: "masters", age: 23, years: 2, words: 'Master\'s degree, with "distinction"' },
  { name: "doctorate", age: 26, years: 5, words: "Doctor of Philosophy – Ph.D." },
];
const SUBJECTS =
  "Accounting,Biology,Business Administration,Chemistry,Computer Science,Criminal Justice,Economics,Education,Electrical Engineering,English Literature,Finance,Fine Arts,History,Mathematics,Music,Nursing,Physics,Psychology,Spanish & Portuguese,Études françaises,国際関係".split(
    ",",
  );

const institution = (name: string) => ({
  institution_name: name,
  institution_linkedin_url: `https://www.linkedin.com/school/${name.toLowerCase().replace(/[^a-z]+/g, "-")}`,
});
const SCHOOLS = cities.map(({ name, state }) => institution(`${name} High School (${state})`));
const COLLEGES = cities.map(({ name, state }) => institution(`University of ${state} at ${name}`));

const subjects = (bits: number, count: number) =>
  Array.from({ length: count }, (_, i) => SUBJECTS[(bits + i * 7) % SUBJECTS.length]);

export function createEducation(key: HashKey, identifiers: Identifiers, families: Families) {
  const ask = (index: number, study: number, question: number) =>
    hash(key, index, STREAM.studies + study * 16 + question);
  /** Studies, newest first; their levels may be unknown. */
  const studiesOf = (index: number) =>
    LEVELS.slice(0, below(ask(index, 9, 0), 10) % (LEVELS.length + 1))
      .map((level, study) => ({
        ...level,
        study,
        known: chance(ask(index, study, 1), 0.1) ? null : level.name,
      }))
      .toReversed();
  return {
    /** Known levels, newest first. */
    levelsOf: (index: number) => studiesOf(index).flatMap(({ known }) => known ?? []),
    /** `education_experience`, newest first. */
    history: (index: number) =>
      studiesOf(index).map(({ study, known, age, years, words }, i) => {
        const has = (question: number, share: number) => chance(ask(index, study, question), share);
        const bits = ask(index, study, 0);
        const isSchool = study === 0;
        const startYear = yearOf(families.birthDayOf(index)) + age;
        const isUndated = has(4, 0.2);
        return {
          experience_rank: i + 1,
          service_experience_id: identifiers.opaqueId("e-", STREAM.studyId, index, study),
          ...pick(isSchool ? SCHOOLS : COLLEGES, bits),
          education_information: has(2, 0.5) ? words : null,
          education_level: known,
          education_majors: subjects(bits, isSchool ? 0 : 1 + (bits & 1)),
          education_minors: subjects(bits >>> 8, !isSchool && has(3, 0.45) ? 1 : 0),
          education_start_date: isUndated ? null : String(startYear),
          education_end_date: isUndated ? null : `${startYear + years}-06`,
        };
      }),
  };
}
