import { yearOf } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick, STREAM } from "./hash.ts";
import type { Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";

/** Levels in their order: age at the start, years, and JSON text of their description. */
export const LEVELS = [
  { name: "high_school", age: 14, years: 4, words: '"High School Diploma"' },
  { name: "bachelors", age: 18, years: 4, words: '"Bachelor of Science (B.S.)"' },
  { name: "masters", age: 23, years: 2, words: '"Master\'s degree, with \\"distinction\\""' },
  { name: "doctorate", age: 26, years: 5, words: '"Doctor of Philosophy – Ph.D."' },
];
const SUBJECTS =
  "Accounting,Biology,Business Administration,Chemistry,Computer Science,Criminal Justice,Economics,Education,Electrical Engineering,English Literature,Finance,Fine Arts,History,Mathematics,Music,Nursing,Physics,Psychology,Spanish & Portuguese,Études françaises,国際関係".split(
    ",",
  );

/** JSON text of the two `institution_…` members. */
function institutionText(name: string): string {
  const slug = name.toLowerCase().replace(/[^a-z]+/g, "-");
  return `"institution_name":"${name}","institution_linkedin_url":"https://www.linkedin.com/school/${slug}"`;
}

const SCHOOLS = cities.map(({ name, state }) => institutionText(`${name} High School (${state})`));
const COLLEGES = cities.map(({ name, state }) => institutionText(`University of ${state} at ${name}`));

/** JSON text of a list of subjects. */
function subjectsText(bits: number, count: number): string {
  return JSON.stringify(Array.from({ length: count }, (_, i) => SUBJECTS[(bits + i * 7) % SUBJECTS.length]));
}

/** Makes the studies of a population. */
export function createEducation(key: HashKey, identifiers: Identifiers, families: Families) {
  const ask = (index: number, study: number, question: number) =>
    hash(key, index, STREAM.studies + study * 16 + question);
  const isLevelKnown = (index: number, study: number) => !chance(ask(index, study, 1), 0.1);
  const studyText = (index: number, study: number, count: number): string => {
    const level = LEVELS[study];
    if (!level) return "";
    const has = (question: number, share: number) => chance(ask(index, study, question), share);
    const bits = ask(index, study, 0);
    const isSchool = study === 0;
    const school = pick(isSchool ? SCHOOLS : COLLEGES, bits);
    const startYear = yearOf(families.birthDayOf(index)) + level.age;
    const dates = has(4, 0.2)
      ? '"education_start_date":null,"education_end_date":null'
      : `"education_start_date":"${startYear}","education_end_date":"${startYear + level.years}-06"`;
    return `{"experience_rank":${count - study},"service_experience_id":"${identifiers.opaqueId("e-", STREAM.studyId, index, study)}",${school},"education_information":${has(2, 0.5) ? level.words : "null"},"education_level":${isLevelKnown(index, study) ? `"${level.name}"` : "null"},"education_majors":${subjectsText(bits, isSchool ? 0 : 1 + (bits & 1))},"education_minors":${subjectsText(bits >>> 8, !isSchool && has(3, 0.45) ? 1 : 0)},${dates}}`;
  };
  const countOf = (index: number) => below(ask(index, 9, 0), 10) % (LEVELS.length + 1);
  return {
    /** Known levels, newest first. */
    levelsOf: (index: number): readonly string[] =>
      LEVELS.slice(0, countOf(index))
        .flatMap(({ name }, study) => (isLevelKnown(index, study) ? name : []))
        .toReversed(),
    /** JSON text of `education_experience`, newest first. */
    historyText(index: number): string {
      const count = countOf(index);
      return `[${Array.from({ length: count }, (_, i) => studyText(index, count - 1 - i, count)).join()}]`;
    },
  };
}
