import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { runEnrichJob, writeConfig } from "./enrich-job.ts";
import { dropSchemas, setStage, type Stage, writeBodies } from "./stage.ts";

/**
 * Measures the peak memory of Node in a first night, and when everybody is sent again, by people and KB of an answer.
 *
 *     npm run bench:memory -- [--nights 20000x1,20000x30,200000x1]
 */
const { values } = parseArgs({
  options: { nights: { type: "string", default: "20000x1,20000x30,200000x1" } },
});

const SCHEMA = "bench_memory";
type Person = Readonly<Record<string, unknown>>;

/** A person of the sandbox, as it answers the first request of a file. */
async function samplePerson(stage: Stage, bodies: string): Promise<Person> {
  const [body = ""] = readFileSync(bodies, "utf8").split("\n", 1);
  const headers = { "x-api-key": "bench", "content-type": "application/json" };
  const response = await fetch(`${stage.serviceUrl}/v2/enrich`, { method: "POST", headers, body });
  // Answers of the sandbox.
  const { results } = (await response.json()) as { results: Person[] };
  const found = results.find((result) => result["is_match"] === true);
  if (!found) throw new Error("The sandbox matched nobody.");
  const answerFields = ["record_id", "is_match", "service_pid", "match_score"];
  return Object.fromEntries(Object.entries(found).filter(([name]) => !answerFields.includes(name)));
}

/** JSON of a person, whose list elements are repeated until it has this size. */
function sized(person: Person, bytes: number): string {
  const lists = Object.entries(person).filter(
    (entry): entry is [string, unknown[]] => Array.isArray(entry[1]) && entry[1].length > 0,
  );
  const elements = lists.flatMap(([name, list]) => list.map((element) => [name, element] as const));
  const grown = new Map(lists.map(([name]) => [name, [] as unknown[]]));
  const textOf = () => JSON.stringify({ ...person, ...Object.fromEntries(grown) });
  let size = textOf().length;
  for (let i = 0; size < bytes; i++) {
    const [name, element] = elements[i % elements.length] ?? ["", null];
    grown.get(name)?.push(element);
    size += JSON.stringify(element).length + 1;
  }
  return textOf();
}

async function measureNight(people: number, kilobytes: number): Promise<void> {
  const stage = await setStage(people);
  try {
    const bodies = join(stage.folder, "bodies.jsonl");
    await writeBodies(stage, bodies);
    const file = join(stage.folder, "person.json");
    const text = sized(await samplePerson(stage, bodies), kilobytes * 1000);
    writeFileSync(file, text);
    const program = new URL("sized-service.ts", import.meta.url).pathname;
    const service = spawn(process.execPath, [program, file], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = await once(createInterface(service.stdout), "line");
    const { url } = JSON.parse(String(line)) as { url: string };
    await dropSchemas(stage.databaseUrl, SCHEMA);
    const config = writeConfig({ ...stage, serviceUrl: url }, SCHEMA);
    for (const extra of [[], ["--resend"]]) {
      const figures = await runEnrichJob(stage, extra[0] ?? "first night", config, extra);
      process.stdout.write(
        `${figures.people} people of ${(text.length / 1000).toFixed(1)} KB, ${figures.what}: ${figures.peak_node_mb} MB, ${figures.people_per_second} people/s\n`,
      );
    }
    service.stdin.end();
  } finally {
    await stage.close();
  }
}

for (const night of values.nights.split(",")) {
  const [people = 0, kilobytes = 0] = night.split("x").map(Number);
  await measureNight(people, kilobytes);
}
