import { firstOfPerson } from "./first-of-person.ts";

/** Best phone of each person. */
export const personBestPhone = firstOfPerson(
  {
    name: "person_best_phone",
    doc: "Best phone of each person: lowest `phone_rank`, then lowest `position`.",
  },
  "person_phone",
  {
    columns: ["service_pid", "phone_number", "phone_type", "phone_rank"],
    orderBy: ["phone_rank", "position"],
    where: (alias) => `${alias}.phone_number IS NOT NULL`,
  },
);

/** Current address of each person. */
export const personCurrentAddress = firstOfPerson(
  {
    name: "person_current_address",
    doc: "Current address of each person: lowest `address_rank`, then lowest `position`.",
  },
  "person_address",
  { orderBy: ["address_rank", "position"] },
);

/** Current job of each person. */
export const personCurrentJob = firstOfPerson(
  {
    name: "person_current_job",
    doc:
      "Current job of each person: of those with `work_status` = `current`, lowest `experience_rank`, then lowest `position`. People " +
      "without a current job have no row.",
  },
  "person_work_experience",
  { orderBy: ["experience_rank", "position"], where: (alias) => `${alias}.work_status = 'current'` },
);
