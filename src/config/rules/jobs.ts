import { type Problems, textOf } from "../problems.ts";
import { checkCycles } from "./cycles.ts";
import { entriesOf, entryNamed, type JobLinks, type Links } from "./links.ts";
import { unknownName } from "./names.ts";

/** What jobs say about inputs, connections and each other. */
export function checkJobs(links: Links, problems: Problems): void {
  if (Object.keys(links.jobs).length === 0) {
    problems.add(["jobs"], {
      message: "has no job",
      hint: "see config.example.yaml, or make one with `person-etl init`",
    });
  }
  for (const [name, job] of entriesOf(links.jobs)) {
    checkInput(links, name, job, problems);
    checkAfter(links, name, job, problems);
    checkSource(links, name, job, "pid_from", "resolve", problems);
    checkSource(links, name, job, "valid_emails_from", "validate_emails", problems);
    checkSegments(links, name, job, problems);
    checkConnections(links, name, job, problems);
  }
  checkSegmentNames(links, problems);
  checkCycles(links, problems);
}

function checkInput(links: Links, name: string, job: JobLinks, problems: Problems): void {
  if (job.input === undefined) return;
  const path = ["jobs", name, "input"];
  if (!Object.hasOwn(links.inputs, job.input)) {
    problems.add(path, unknownName("input", job.input, Object.keys(links.inputs)));
    return;
  }
  const fields = entryNamed(links.inputs, job.input)?.fields;
  if (fields === undefined) return;
  const has = (field: string) => Object.hasOwn(fields, field);
  if (job.type === "validate_emails" && !has("emails")) {
    problems.add(path, {
      message: "names an input that maps no emails",
      hint: "add emails to the fields of the input",
    });
  }
  const isResolvable =
    (has("full_name") || (has("first_name") && has("last_name"))) && (has("emails") || has("phones"));
  if (job.type === "resolve" && !isResolvable) {
    problems.add(path, {
      message: "names an input without what resolve needs: a name, and emails or phones",
      hint: "map first_name and last_name (or full_name), and emails or phones, in the fields of the input",
    });
  }
  if (job.pid_from !== undefined && has("service_pid")) {
    problems.add(["jobs", name, "pid_from"], {
      message: "stands beside a mapped service_pid: there would be two PIDs to send",
      hint: "remove pid_from, or service_pid from the fields of the input",
    });
  }
}

function checkAfter(links: Links, name: string, job: JobLinks, problems: Problems): void {
  const known = Object.keys(links.jobs);
  for (const [position, other] of job.after.entries()) {
    // One name may stand without a list around it; then the place is the setting itself.
    const path = ["jobs", name, "after"];
    const place = job.after.length === 1 ? path : [...path, position];
    if (!known.includes(other)) problems.add(place, unknownName("job", other, known));
  }
}

function checkSource(
  links: Links,
  name: string,
  job: JobLinks,
  setting: "pid_from" | "valid_emails_from",
  type: string,
  problems: Problems,
): void {
  const other = job[setting];
  if (other === undefined) return;
  const path = ["jobs", name, setting];
  const suitable = entriesOf(links.jobs)
    .filter(([, candidate]) => candidate.type === type && candidate.input === job.input)
    .map(([candidate]) => candidate);
  if (!Object.hasOwn(links.jobs, other)) {
    problems.add(path, unknownName("job", other, suitable));
    return;
  }
  const source = entryNamed(links.jobs, other);
  if (source?.type !== undefined && source.type !== type) {
    problems.add(path, { message: `must name a job of type ${type}`, hint: suitableHint(suitable) });
  } else if (isKnownInput(links, source) && isKnownInput(links, job) && source?.input !== job.input) {
    problems.add(path, {
      message: "names a job on another input: their rows have nothing to do with each other",
      hint: suitableHint(suitable),
    });
  }
}

function isKnownInput(links: Links, job: JobLinks | undefined): boolean {
  return job?.input !== undefined && Object.hasOwn(links.inputs, job.input);
}

function suitableHint(names: readonly string[]): string {
  return names.length === 0 ? "there is none on this input" : `on this input there is ${names.join(", ")}`;
}

function checkSegments(links: Links, name: string, job: JobLinks, problems: Problems): void {
  const pushes = entriesOf(links.jobs).filter(([, other]) => other.type === "segment_push");
  const known = pushes.map(([push]) => push);
  for (const [position, segment] of job.segments.entries()) {
    const path = ["jobs", name, "segments", position];
    if ((segment.id === undefined) === (segment.job === undefined)) {
      problems.add(path, {
        message: "must have an id or a job, one of the two",
        hint: "{ id: <uuid> } or { job: NAME }",
      });
    }
    if (segment.job !== undefined && !known.includes(segment.job)) {
      problems.add([...path, "job"], unknownName("segment_push job", segment.job, known));
    }
  }
  if (job.type === "segment_push" && job.name === undefined && job.segment_id === undefined) {
    problems.add(["jobs", name, "name"], {
      message: "is missing",
      hint: "name the segment, or give its segment_id",
    });
  }
}

/** Of pushes that make a segment of one name, all but the first would be refused by the service, night after night. */
function checkSegmentNames(links: Links, problems: Problems): void {
  const makers = new Map<string, string>();
  for (const [name, job] of entriesOf(links.jobs)) {
    if (job.type !== "segment_push" || !job.enabled || job.segment_id !== undefined) continue;
    if (job.name === undefined) continue;
    const first = makers.get(job.name);
    if (first === undefined) {
      makers.set(job.name, name);
      continue;
    }
    problems.add(["jobs", name, "name"], {
      message: `is that of ${textOf(["jobs", first, "name"])}, too: the service makes no second segment of one name`,
      hint: "choose another name, or give one of the two a segment_id",
    });
  }
}

function checkConnections(links: Links, name: string, job: JobLinks, problems: Problems): void {
  const known = Object.keys(links.connections);
  const check = (path: readonly string[], connection: string | undefined) => {
    if (connection === undefined || known.includes(connection)) return;
    problems.add(["jobs", name, ...path], unknownName("connection", connection, known));
  };
  check(["connection"], job.connection);
  check(["job_ids", "connection"], job.job_ids?.connection);
}
