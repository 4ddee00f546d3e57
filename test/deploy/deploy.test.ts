import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { validate as lintDockerfile, ValidationCode } from "dockerfile-utils";
import { parser as python } from "@lezer/python";
import { CronJob, Job } from "kubernetes-models/batch/v1";
import { PersistentVolumeClaim } from "kubernetes-models/v1";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse, parseAllDocuments } from "yaml";

const run = promisify(execFile);
const read = (name: string) => readFile(resolve("deploy", name), "utf8");

describe("the image", () => {
  it("passes a linter of Dockerfiles", async () => {
    const found = lintDockerfile(await read("Dockerfile"));
    expect(found.map(({ message }) => message)).toEqual([]);
    // The linter does detect errors.
    expect(lintDockerfile("FROM a\nCOPPY . .\n").map(({ code }) => code)).toEqual([
      ValidationCode.UNKNOWN_INSTRUCTION,
    ]);
  });

  it("is built in stages, runs as an unprivileged user, and contains neither tools nor a second Node.js", async () => {
    const text = await read("Dockerfile");
    const last = text.slice(text.lastIndexOf("\nFROM "));
    expect(text.match(/^FROM /gm)).toHaveLength(3);
    expect(last).toMatch(/^USER node$/m);
    expect(last).toMatch(/COPY --from=dependencies .*node_modules/);
    expect(text).toContain("npm ci --omit=dev");
    expect(last).not.toContain("npm");
  });

  it("copies only what is there, and what its ignore file lets through", async () => {
    const [text, ignored] = await Promise.all([read("Dockerfile"), read("Dockerfile.dockerignore")]);
    const copied = [...text.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, files = ""]) =>
      files.split(" "),
    );
    const allowed = ignored.split("\n").flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : []));
    expect([...new Set(copied)].toSorted()).toEqual(allowed.toSorted());
    for (const file of new Set(copied)) await expect(run("ls", ["-d", file])).resolves.toBeDefined();
  });
});

it("everything that runs is pinned, leaves no cores, and holds no token of the cluster", async () => {
  const [image, compose, unit] = await Promise.all(
    ["Dockerfile", "compose.yaml", "systemd/person-etl.service"].map(read),
  );
  expect(image).toMatch(/^ARG NODE_IMAGE=node:\d+\.\d+\.\d+-alpine/m);
  expect(compose).toMatch(/image: postgres:\d+\.\d+-alpine/);
  expect(compose?.match(/ulimits: \{ core: 0 \}/g)).toHaveLength(2);
  expect(unit).toMatch(/^LimitCORE=0$/m);
  for (const name of ["kubernetes/nightly.yaml", "kubernetes/shards.yaml"]) {
    const text = await read(name);
    expect(text).toContain("automountServiceAccountToken: false");
    expect(text).not.toMatch(/:latest|secretKeyRef/);
  }
});

it("the compose file names only services, secrets and volumes that it declares", async () => {
  // Only the parts that refer to each other.
  const file = parse(await read("compose.yaml")) as {
    services: Record<
      string,
      {
        secrets: string[];
        volumes: string[];
        depends_on?: Record<string, unknown>;
        build?: { dockerfile: string };
      }
    >;
    secrets: Record<string, unknown>;
    volumes: Record<string, unknown>;
  };
  const services = Object.values(file.services);
  expect(new Set(services.flatMap(({ secrets }) => secrets))).toEqual(new Set(Object.keys(file.secrets)));
  const named = services.flatMap(({ volumes }) => volumes.map((volume) => volume.split(":")[0] ?? ""));
  expect(named.filter((name) => !name.startsWith(".")).toSorted()).toEqual(
    Object.keys(file.volumes).toSorted(),
  );
  for (const { depends_on } of services) {
    expect(Object.keys(file.services)).toEqual(expect.arrayContaining(Object.keys(depends_on ?? {})));
  }
  expect(file.services["person-etl"]).toMatchObject({
    build: { context: "..", dockerfile: "deploy/Dockerfile" },
    read_only: true,
    cap_drop: ["ALL"],
  });
});

it("the systemd unit starts and reloads the scheduler, and passes systemd-analyze where it is installed", async () => {
  const unit = await read("systemd/person-etl.service");
  expect(unit).toContain(
    "\nExecStart=/usr/local/bin/person-etl --config /etc/person-etl/config.yaml --log-level info schedule\n",
  );
  expect(unit).toContain("\nExecReload=/bin/kill -HUP $MAINPID\n");
  expect(unit).toContain("\nSuccessExitStatus=130 143\n");
  expect(await verify()).toEqual("");
});

/** Output of systemd-analyze for the unit, with an existing program; empty without systemd. */
async function verify(): Promise<string> {
  const hasSystemd = await run("systemd-analyze", ["--version"]).then(
    () => true,
    () => false,
  );
  if (!hasSystemd) return "";
  const folder = await mkdtemp(join(tmpdir(), "person-etl-unit-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "person-etl.service");
  const text = await read("systemd/person-etl.service");
  await cp(resolve("deploy/systemd/person-etl.service"), file);
  await writeFile(file, text.replace("/usr/local/bin/person-etl", resolve("bin/person-etl")));
  const { stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", file]).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  return `${stdout}${stderr}`
    .split("\n")
    .filter((line) => line.includes("person-etl.service"))
    .join("\n");
}

describe("the Kubernetes manifests", () => {
  it.each(["kubernetes/nightly.yaml", "kubernetes/shards.yaml"])(
    "%s fits Kubernetes' own schema",
    async (name) => {
      const kinds: string[] = [];
      for (const document of parseAllDocuments(await read(name))) {
        const manifest = manifestOf(document.toJS());
        manifest.validate();
        kinds.push(manifest.kind);
      }
      expect(kinds).toEqual(["PersistentVolumeClaim", name.includes("nightly") ? "CronJob" : "Job"]);
    },
  );

  it("would not fit with a wrong setting", () => {
    const wrong = { apiVersion: "batch/v1", kind: "Job", spec: { completions: "four" } };
    expect(() => manifestOf(wrong).validate()).toThrow(/completions/);
  });

  it("has as many shards as pods, each with its own folder", async () => {
    const text = await read("kubernetes/shards.yaml");
    expect(text).toContain("completions: 4\n  parallelism: 4");
    expect(text).toContain("--shard, $(SHARD)/4");
    expect(text).toContain("subPathExpr: shard-$(SHARD)");
  });
});

interface Manifest {
  readonly kind: string;
  validate(): void;
}

/** A manifest as a generated Kubernetes model. */
function manifestOf(document: { readonly kind: string }): Manifest {
  const models = { CronJob, Job, PersistentVolumeClaim };
  const Model = Object.entries(models).find(([kind]) => kind === document.kind)?.[1];
  if (!Model) throw new Error(`no model of ${document.kind}`);
  return new Model(document as never); // its validation decides
}

it("the Airflow DAG is valid Python, and runs the command as users do", async () => {
  const text = await read("airflow/person_etl_dag.py");
  expect(syntaxErrors(text)).toEqual([]);
  expect(syntaxErrors(text.replace("def check() ->", "def check( ->"))).not.toEqual([]);
  expect(text).toContain("NO_RETRY = (2, 3)");
  expect(text).toContain('person_etl("run", "--run-id", str(run_id), "--wait", *part)');
});

/** Positions of Python syntax errors. */
function syntaxErrors(source: string): readonly number[] {
  const places: number[] = [];
  python.parse(source).iterate({ enter: (node) => void (node.type.isError && places.push(node.from)) });
  return places;
}
