import { yearOf } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick } from "./hash.ts";
import type { Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";
import { STREAM } from "./streams.ts";

/** What people studied. */
export interface Education {
  /** JSON text of a person's `education_experience`, newest first. */
  historyText(index: number): string;
}

/** In the order in which they are reached: level, age at the start, years that it takes, words for it as JSON text. */
const LEVELS = [
  { name: "high_school", age: 14, years: 4, words: JSON.stringify("High School Diploma") },
  { name: "bachelors", age: 18, years: 4, words: JSON.stringify("Bachelor of Science (B.S.)") },
  { name: "masters", age: 23, years: 2, words: JSON.stringify('Master\'s degree, with "distinction"') },
  { name: "doctorate", age: 26, years: 5, words: JSON.stringify("Doctor of Philosophy – Ph.D.") },
] as const;

const SUBJECTS =
  "Accounting,Biology,Business Administration,Chemistry,Civil Engineering,Communications,Computer Science,Criminal Justice,Economics,Education,Electrical Engineering,English Literature,Finance,Fine Arts,History,Marketing,Mathematics,Mechanical Engineering,Music,Nursing,Philosophy,Physics,Political Science,Psychology,Sociology,Spanish & Portuguese,Theology,Urban Studies,Études françaises,国際関係".split(
    ",",
  );

interface School {
  /** JSON text of the two `institution_…` members. */
  readonly members: string;
}

function schoolsOf(kind: (city: string, state: string) => string): readonly School[] {
  return cities.map((city) => {
    const name = kind(city.name, city.state);
    const slug = name
      .normalize("NFKD")
      .toLowerCase()
      .replace(/[^a-z]+/g, "-");
    const fields = {
      institution_name: name,
      institution_linkedin_url: `https://www.linkedin.com/school/${slug}`,
    };
    return { members: JSON.stringify(fields).slice(1, -1) };
  });
}

/** JSON text of so many subjects. */
function subjects(bits: number, count: number): string {
  let text = "[";
  for (let i = 0; i < count; i++) {
    text += `${i === 0 ? "" : ","}"${SUBJECTS[(bits + i * 7) % SUBJECTS.length]}"`;
  }
  return `${text}]`;
}

/** The studies of a population. */
export function createEducation(key: HashKey, identifiers: Identifiers, families: Families): Education {
  const highSchools = schoolsOf((city, state) => `${city} High School (${state})`);
  const colleges = schoolsOf((city, state) => `University of ${state} at ${city}`);
  const ask = (index: number, study: number, question: number) =>
    hash(key, index, STREAM.studies + study * 16 + question);

  const studyText = (index: number, study: number, rank: number, birthYear: number): string => {
    const level = LEVELS[study];
    if (!level) throw new Error("Studies are numbered by their level.");
    const bits = ask(index, study, 0);
    const school = pick(study === 0 ? highSchools : colleges, bits);
    const levelText = chance(ask(index, study, 1), 0.1) ? "null" : `"${level.name}"`;
    const information = chance(ask(index, study, 2), 0.5) ? level.words : "null";
    const majors = study === 0 ? "[]" : subjects(bits, chance(bits, 0.5) ? 1 : 2);
    const minors = study === 0 || !chance(ask(index, study, 3), 0.45) ? "[]" : subjects(bits >>> 8, 1);
    const startYear = birthYear + level.age;
    const dates = chance(ask(index, study, 4), 0.2)
      ? '"education_start_date":null,"education_end_date":null'
      : `"education_start_date":"${startYear}","education_end_date":"${startYear + level.years}-06"`;
    return `{"experience_rank":${rank},"service_experience_id":"${identifiers.opaqueId("e-", STREAM.studyId, index, study)}",${school.members},"education_information":${information},"education_level":${levelText},"education_majors":${majors},"education_minors":${minors},${dates}}`;
  };

  return {
    historyText(index) {
      const count = below(ask(index, 9, 0), 10) % (LEVELS.length + 1);
      const birthYear = yearOf(families.birthDayOf(index));
      let text = "[";
      for (let study = count - 1; study >= 0; study--) {
        text += (text === "[" ? "" : ",") + studyText(index, study, count - study, birthYear);
      }
      return `${text}]`;
    },
  };
}
