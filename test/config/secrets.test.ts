import { jobTypes } from "../../src/jobs/registry.ts";
import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { fineBut, load, makeFolder, problemsOf, refusalOf } from "./support.ts";

/** A configuration with this key. */
const withKey = (key: string) =>
  fineBut("base_url: sandbox", `base_url: https://api.example.com\n  api_key: ${key}`);
/** A configuration with this warehouse. */
const withUrl = (url: string) => fineBut("url: embedded", `url: ${url}`);

/** A configuration with its key in a file of this content. */
async function write(content: string, mode = 0o600) {
  const folder = await makeFolder();
  await mkdir(join(folder, "keys"));
  const keyFile = join(folder, "keys", "api-key");
  await writeFile(keyFile, content);
  await chmod(keyFile, mode);
  const file = join(folder, "config.yaml");
  await writeFile(file, withKey("file:keys/api-key"));
  return { folder, file, keyFile };
}

/** Problem of a file in that state, independent of its folder. */
const fileProblem = (state: string) =>
  expect.stringMatching(
    `^3 service.api_key: refers to a file that ${state} \\(relative paths start at .*\\)$`,
  );

const LITERAL =
  "must be a reference to a secret, not the secret itself (use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file)";
const UNESCAPED = "has unescaped special characters in its password (percent-encode";
const SET = "(set it in the environment of this command)";

describe("the key", () => {
  it.each([
    ["sk-live-7f3a", LITERAL],
    ["'prefix-${KEY}'", LITERAL],
    ["'${KEY'", LITERAL],
    ["'file:'", LITERAL],
    ["${PERSON_KEY}", `requires the environment variable PERSON_KEY, which is not set ${SET}`],
    ["${BLANK}", `requires the environment variable BLANK, which is empty ${SET}`],
    ["${sk_live_7f3a}", `requires an environment variable, which is not set ${SET}`],
    ["${toString}", `requires an environment variable, which is not set ${SET}`],
    ["${WORDS}", "refers to a key with invalid characters (copy it again, without spaces or line breaks)"],
  ])("as %s is refused and not repeated", async (key, problem) => {
    const env = { KEY: "k-secret", BLANK: " ", WORDS: "two words" };
    expect(await problemsOf(withKey(key), { env })).toEqual([`3 service.api_key: ${problem}`]);
  });

  it("is missing where the service is a real one", async () => {
    expect(await problemsOf(fineBut("sandbox", "https://api.example.com"))).toEqual([
      "1 service.api_key: is missing (${PERSON_SERVICE_API_KEY} or file:PATH; only the sandbox needs no key)",
    ]);
  });

  it("may be unset for the sandbox, but never literal", async () => {
    const text = fineBut("sandbox", "sandbox\n  api_key: ${UNSET}\n  user_api_key: file:nowhere");
    expect((await load(text)).service).toMatchObject({ apiKey: null, userApiKey: null });
    expect(await problemsOf(fineBut("sandbox", "sandbox\n  api_key: sk-live-7f3a"))).toHaveLength(1);
  });
});

describe("a key in a file", () => {
  it("is relative to the configuration, trimmed, and read on every use", async () => {
    const { file, keyFile } = await write("  key-1\n");
    const { service, warnings } = await loadConfig({ jobTypes, file, env: {} });
    expect(warnings).toEqual([]);
    expect(service.apiKey?.origin).toBe(`file ${keyFile}`);
    await expect(service.apiKey?.read()).resolves.toBe("key-1");
    await writeFile(keyFile, "key-2\r\n");
    await expect(service.apiKey?.read()).resolves.toBe("key-2");
    await rm(keyFile);
    await expect(service.apiKey?.read()).rejects.toThrow(
      `The secret in ${keyFile} can't be read: the file does not exist. Write`,
    );
  });

  it("that others can read is used, with a warning", async () => {
    const { file } = await write("key-1\n", 0o644);
    expect((await loadConfig({ jobTypes, file, env: {} })).warnings).toEqual([
      {
        path: "service.api_key",
        line: 3,
        message: "refers to a file that other users can read",
        hint: "run chmod 600 on it",
      },
    ]);
  });

  it.each([
    ["\n", "is empty"],
    ["key-1\nkey-2\n", "has more than one line"],
    ["k".repeat(70_000), "is larger than 64 KiB"],
  ])("of the content %# is refused", async (content, reason) => {
    const { folder, file } = await write(content);
    const { problems } = await refusalOf(loadConfig({ jobTypes, file, env: {} }));
    expect(problems).toMatchObject([
      { message: `refers to a file that ${reason}`, hint: `relative paths start at ${folder}` },
    ]);
  });

  it("that isn't there is refused without repeating its path", async () => {
    expect(await problemsOf(withKey("file:sk-live-7f3a"))).toEqual([fileProblem("does not exist")]);
  });

  it("may be named by the environment", async () => {
    const { folder } = await write("key-1\n");
    const { service } = await load(withKey("file:${KEYS}/api-key"), { env: { KEYS: join(folder, "keys") } });
    await expect(service.apiKey?.read()).resolves.toBe("key-1");
  });
});

it("a service account's key that others can read causes a warning", async () => {
  const { folder, file } = await write("key-1\n");
  const lake =
    "connections: { lake: { type: bigquery, project: my-project, credentials: file:lake.json } }\n";
  await writeFile(file, `${withKey("file:keys/api-key")}${lake}`);
  await writeFile(join(folder, "lake.json"), "{}");
  const warnings = async (mode: number) => {
    await chmod(join(folder, "lake.json"), mode);
    return (await loadConfig({ jobTypes, file, env: {} })).warnings.map(
      ({ path, message }) => `${path} ${message}`,
    );
  };
  expect(await warnings(0o600)).toEqual([]);
  expect(await warnings(0o644)).toEqual([
    "connections.lake.credentials names a file that other users can read",
  ]);
});

describe("the address of the warehouse", () => {
  it.each([
    ["${WAREHOUSE_URL}", "postgres://u:p%40ss@h:5433/db"],
    ["postgresql://loader@localhost/warehouse", "postgresql://loader@localhost/warehouse"],
    [
      "postgresql://loader:${PASSWORD}@localhost:${PORT}/warehouse",
      "postgresql://loader:s3cret@localhost:5432/warehouse",
    ],
    ["postgresql:///warehouse?host=/run/postgresql", "postgresql:///warehouse?host=/run/postgresql"],
    ["${SOCKET}", "postgres://me:h,2@/db?host=/run/postgresql"],
    ["${LOCAL}", "postgres://u:h,2@localhost/db?sslmode=disable"],
    ["${REQUIRED}", "postgres://u@h/db?sslmode=require"],
  ])("may be %s", async (url, address) => {
    const env = {
      WAREHOUSE_URL: " postgres://u:p%40ss@h:5433/db\n",
      PASSWORD: "s3cret",
      PORT: "5432",
      SOCKET: address,
      LOCAL: address,
      REQUIRED: address,
    };
    const { warehouse, warnings } = await load(withUrl(url), { env });
    expect(warehouse.url === "embedded" || warehouse.url === null ? null : await warehouse.url.read()).toBe(
      address,
    );
    expect(warnings).toEqual([]);
  });

  it.each([
    "postgres://loader:hunter2@h/db",
    "postgres://loader@h/db?password=hunter2",
    "postgres://l:hunter2${X}@h/db",
  ])("may not be %s: the password would stand in the file", async (url) => {
    expect(await problemsOf(withUrl(url), { env: { X: "x" } })).toEqual([
      "5 warehouse.url: contains a password, which must not be in this file (use a reference for the whole address: ${NAME} or file:PATH, or only for the password: ${NAME}; change this password)",
    ]);
  });

  it.each([
    ["mysql://u:hunter2@h/db", "is not a postgresql:// URL"],
    ["hunter2", "is not a postgresql:// URL"],
    ["jdbc:postgresql://h/db", "is not a postgresql:// URL (remove jdbc:"],
    ["postgres://u:h,2@a,b/db", "names several hosts"],
    ["postgres://u:hunter2@a:5432,b:5433/db", "names several hosts"],
    ["postgres:///?service=dwh", "names a service of libpq, whose file is not read"],
    ["postgres://u:hun#ter2@h/db", UNESCAPED],
    ["postgres://u:hun/ter2@h/db", UNESCAPED],
    ["postgres://u:hun?ter2@h/db", UNESCAPED],
    ["postgres://u:hunter2%@h/db", UNESCAPED],
    ["postgres://u:hunter@2#@h/db", UNESCAPED],
    ["postgres://u:2/hunter@h/db", UNESCAPED],
    ["postgres://u:2?hunter@h/db", UNESCAPED],
  ])("%s is refused for what it is, and not repeated", async (url, reason) => {
    const [problem, ...others] = await problemsOf(withUrl("${WAREHOUSE_URL}"), {
      env: { WAREHOUSE_URL: url },
    });
    expect(problem).toContain(`5 warehouse.url: refers to a value that ${reason}`);
    expect(others).toEqual([]);
    expect(problem).not.toContain("hunter");
    expect((await problemsOf(withUrl(`'${url}'`))).join()).not.toContain("hunter");
  });

  it.each([
    ["sslmode=disable", "db.example.com"],
    ["sslmode=no-verify", "db.example.com"],
    ["ssl=0", "10.0.0.7"],
    ["sslmode=disable&host=db.example.com", "localhost"],
  ])("with %s at %s needs allow_insecure", async (parameters, host) => {
    const env = { WAREHOUSE_URL: `postgres://loader:hunter2@${host}/db?${parameters}` };
    expect(await problemsOf(withUrl("${WAREHOUSE_URL}"), { env })).toEqual([
      "5 warehouse.url: would send people's data over the network without verified TLS (remove sslmode (TLS is the default), or set warehouse.allow_insecure: true in a private network)",
    ]);
    const { warehouse } = await load(withUrl("${WAREHOUSE_URL}\n  allow_insecure: true"), { env });
    expect(warehouse.allowInsecure).toBe(true);
    const crm = `connections: { crm: { type: postgres, url: "\${WAREHOUSE_URL}" } }\n`;
    expect(await problemsOf(`${fineBut("key: id", "key: id")}${crm}`, { env })).toHaveLength(1);
  });

  it("of a connection may not be embedded", async () => {
    expect(
      await problemsOf(
        `${fineBut("key: id", "key: id")}connections: { crm: { type: postgres, url: embedded } }\n`,
      ),
    ).toEqual([
      "15 connections.crm.url: must be the postgres:// address of a database, preferably as a reference (${NAME} or file:PATH)",
    ]);
  });
});

describe("the address of the service", () => {
  it.each([
    [
      "https://user:hunter2@api.example.com",
      "contains a user or password (the key belongs in service.api_key)",
    ],
    [
      "https://api.example.com/?key=hunter2",
      "must be `sandbox` or the https:// address of the service (without user, query or #)",
    ],
    [
      "ftp://api.example.com",
      "must be `sandbox` or the https:// address of the service (without user, query or #)",
    ],
    ["hunter2", "must be `sandbox` or the https:// address of the service (write https:// before it)"],
    [
      "http://api.example.com",
      "would send the key and people's data over the network unencrypted (use https://, or set service.allow_insecure: true)",
    ],
  ])("may not be %s", async (url, problem) => {
    const text = fineBut("sandbox", `${url}\n  api_key: \${KEY}`);
    expect(await problemsOf(text, { env: { KEY: "k" } })).toEqual([`2 service.base_url: ${problem}`]);
  });

  it.each(["http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:8080", "https://api.example.com/v"])(
    "may be %s",
    async (url) => {
      const text = fineBut("sandbox", `"${url}"\n  api_key: \${KEY}`);
      expect((await load(text, { env: { KEY: "k" } })).service.baseUrl).toBe(url);
    },
  );

  it("may be http:// to another machine if allow_insecure is set", async () => {
    const text = fineBut("sandbox", "http://api.internal\n  api_key: ${KEY}\n  allow_insecure: true");
    expect((await load(text, { env: { KEY: "k" } })).service.baseUrl).toBe("http://api.internal");
  });
});
