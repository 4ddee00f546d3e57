import type { Complaint, Path, Problems } from "../problems.ts";
import { suggest } from "../suggest.ts";
import { entriesOf, type Links } from "./links.ts";

const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/** The names that the user chose: they become values of columns (`source`, `job`) and metric labels. */
export function checkNames(links: Links, problems: Problems): void {
  const check = (path: Path, names: readonly string[]) => {
    for (const name of names.filter((n) => !NAME.test(n))) {
      problems.add([...path, name], {
        message: "is not a usable name",
        hint: "lower-case letters, digits and _, a letter first, at most 63 in all",
      });
    }
  };
  check(["connections"], Object.keys(links.connections));
  check(["inputs"], Object.keys(links.inputs));
  check(["jobs"], Object.keys(links.jobs));
  for (const [name, job] of entriesOf(links.jobs)) {
    check(["jobs", name, "searches"], Object.keys(job.searches));
  }
}

/** What to say about a name that names nothing: the likely one, else all there are. */
export function unknownName(what: string, given: string, known: readonly string[]): Complaint {
  const meant = suggest(given, known);
  const all =
    known.length === 0 ? `there is no ${what}` : `there is ${known.filter((n) => NAME.test(n)).join(", ")}`;
  return {
    message: `names no ${what} of this configuration`,
    hint: meant === null ? all : `did you mean ${meant}?`,
  };
}
