import type { Complaint, Path, Problems } from "../problems.ts";
import { writers } from "../../schemas/ops.ts";
import { NAME } from "../schema/values.ts";
import { suggest } from "../suggest.ts";
import type { WrittenFile } from "../written-file.ts";

/** Checks names chosen by the user, which become column values (`source`, `job`) and metric labels. */
export function checkNames({ publish, connections, inputs, jobs }: WrittenFile, problems: Problems): void {
  const check = (path: Path, section: object) => {
    for (const name of Object.keys(section).filter((n) => !NAME.test(n))) {
      problems.add([...path, name], {
        message: "is not a valid name",
        hint: "use lower-case letters, digits and _, starting with a letter; at most 63 characters",
      });
    }
  };
  check(["publish"], publish);
  check(["connections"], connections);
  check(["inputs"], inputs);
  check(["jobs"], jobs);
  for (const name of writers.filter((writer) => Object.hasOwn(jobs, writer))) {
    problems.add(["jobs", name], {
      message: "is a reserved name",
      hint: "the command of this name writes under it",
    });
  }
}

/** Complaint about an unknown name, with a suggestion or a list of all names. */
export function unknownName(what: string, given: string, known: readonly string[]): Complaint {
  const meant = suggest(given, known);
  const all =
    known.length === 0
      ? `there is no ${what}`
      : `known names: ${known.filter((n) => NAME.test(n)).join(", ")}`;
  return {
    message: `is not a configured ${what}`,
    hint: meant === null ? all : `did you mean ${meant}?`,
  };
}
