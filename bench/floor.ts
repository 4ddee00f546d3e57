import { CALLS_IN_FLIGHT } from "./enrich-job.ts";
import { type Figures, figuresOf, round, withServerCpu } from "./figures.ts";
import { type Measured, measure } from "./measured-process.ts";
import { dropSchemas, makeFloorTables, type Stage } from "./stage.ts";

const COPY_CONNECTIONS = 2;
const program = (name: string) => new URL(name, import.meta.url).pathname;

/** Sends the request bodies of a file and parses the answers; nothing else. */
const fetchBodies = (stage: Stage, bodies: string): Promise<Measured> =>
  measure(process.execPath, [
    program("floor-fetch.ts"),
    stage.serviceUrl,
    "/v2/enrich",
    bodies,
    String(CALLS_IN_FLIGHT),
  ]);

/** HTTP and JSON.parse only: the floor of a night in which nothing changed. */
export async function fetchFloor(stage: Stage, people: number, bodies: string): Promise<Figures> {
  const { result, cpu } = await withServerCpu(stage, () => fetchBodies(stage, bodies));
  return figuresOf("floor: HTTP and JSON.parse", people, result, cpu);
}

/** Bare client beside plain COPY of the same rows into new tables: the floor of a first night. */
export async function composedFloor(
  stage: Stage,
  people: number,
  bodies: string,
  list: string,
): Promise<Figures> {
  await makeFloorTables(stage, "bench_floor");
  const copy = [program("floor-copy.ts"), stage.databaseUrl, list, String(COPY_CONNECTIONS)];
  const { result, cpu } = await withServerCpu(stage, () =>
    Promise.all([fetchBodies(stage, bodies), measure(process.execPath, copy)]),
  );
  const [fetched, copied] = result;
  await dropSchemas(stage.databaseUrl, "bench_floor");
  const both: Measured = {
    seconds: Math.max(fetched.seconds, copied.seconds),
    cpuSeconds: fetched.cpuSeconds + copied.cpuSeconds,
    peakResidentBytes: Math.max(fetched.peakResidentBytes, copied.peakResidentBytes),
    peakTreeBytes: fetched.peakTreeBytes + copied.peakTreeBytes,
    stdout: "",
  };
  const what = `composed floor (fetch ${round(fetched.seconds, 1)} s, COPY ${round(copied.seconds, 1)} s)`;
  return figuresOf(what, people, both, cpu);
}
