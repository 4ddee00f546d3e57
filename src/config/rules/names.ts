import type { Complaint, Path, Problems } from "../problems.ts";
import { suggest } from "../suggest.ts";
import type { WrittenFile } from "../written-file.ts";

const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** Names that the user chose: they become values of columns (`source`, `job`) and metric labels. */
export function checkNames({ publish, connections, inputs, jobs }: WrittenFile, problems: Problems): void {
  const check = (path: Path, section: object) => {
    for (const name of Object.keys(section).filter((n) => !NAME.test(n))) {
      problems.add([...path, name], {
        message: "is not a usable name",
        hint: "lower-case letters, digits and _, a letter first, at most 63 in all",
      });
    }
  };
  check(["publish"], publish);
  check(["connections"], connections);
  check(["inputs"], inputs);
  check(["jobs"], jobs);
}

/** Complains about a name that names nothing: suggests the likely one, else lists all. */
export function unknownName(what: string, given: string, known: readonly string[]): Complaint {
  const meant = suggest(given, known);
  const all =
    known.length === 0 ? `there is no ${what}` : `there is ${known.filter((n) => NAME.test(n)).join(", ")}`;
  return {
    message: `names no ${what} of this configuration`,
    hint: meant === null ? all : `did you mean ${meant}?`,
  };
}
