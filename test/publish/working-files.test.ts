import { mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { openDuckDbDestination } from "../../src/publish/duckdb/destination.ts";
import { describeThisProcess, ownerPrefix, type RunnerProcess } from "../../src/process-state.ts";
import { createMemoryDestination } from "./memory-destination.ts";
import { openSourceContext } from "./publication-context.ts";

test("a publication removes the files of every process but running ones, whatever their PID", async () => {
  const source = await openSourceContext();
  onTestFinished(() => source.close());
  const publication = await source.publicationTo(createMemoryDestination());
  const ourselves = await describeThisProcess();
  const leave = async (owner: RunnerProcess) => {
    const folder = join(publication.folder, `${ownerPrefix(owner)}aB3xYz`);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "person-rows-0"), "Ada");
    return folder;
  };
  const running = await leave(ourselves);
  // The first process of every container has the same PID.
  await leave({ ...ourselves, processStart: "1" });
  await leave({ ...ourselves, machine: "another-container-4026531836" });
  await mkdir(join(publication.folder, "1-zXB54R"));
  await publishDestination(publication);
  expect((await readdir(publication.folder)).map((name) => join(publication.folder, name))).toEqual([
    running,
  ]);
});

test("a destination is free for other processes once it is published to", async () => {
  const source = await openSourceContext();
  onTestFinished(() => source.close());
  const publication = await source.publicationTo(createMemoryDestination(), ["person"]);
  const folder = dirname(publication.folder);
  const open = () =>
    openDuckDbDestination({
      name: "local",
      path: join(folder, "people.duckdb"),
      folder: join(folder, "duckdb"),
      schemas: { data: "person_data", ops: "person_data_ops" },
    });
  const first = open();
  onTestFinished(() => first.close());
  await publishDestination({ ...publication, destination: first });
  const other = open();
  onTestFinished(() => other.close());
  expect(await other.position()).not.toBeNull();
});
