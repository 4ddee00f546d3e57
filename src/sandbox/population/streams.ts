/**
 * Stream numbers of `hash(key, index, stream)`, one per fact. Lists have wide ranges, because each field of an item has its
 * own stream (`base + item * width + field`).
 * 101 to 103 belong to PIDs (see `identifiers.ts`).
 */
export const STREAM = {
  family: 1, // up to 40
  name: 41, // up to 60
  person: 200, // up to 299
  contact: 300, // up to 399
  householdId: 400,
  addressId: 402,
  workId: 404,
  studyId: 406,
  address: 500, // 8 slots of 32
  moves: 1_000,
  career: 2_000,
  jobs: 3_000, // any number of jobs of 16
  newJobs: 20_000,
  studies: 30_000,
  emailValidity: 40_000, // 8 slots of 1,000
  sample: 60_000,
  death: 61_000, // up to 61,099
} as const;
