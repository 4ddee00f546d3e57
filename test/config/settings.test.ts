import { dirname, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { locateConfig } from "../../src/config/settings.ts";
import { fine, fineBut, load, problemsOf } from "./support.ts";

describe("flag before environment before file before default", () => {
  it("for the file itself", () => {
    expect(locateConfig("flag.yaml", { PERSON_ETL_CONFIG: "env.yaml" })).toBe("flag.yaml");
    expect(locateConfig(undefined, { PERSON_ETL_CONFIG: "env.yaml" })).toBe("env.yaml");
    expect(locateConfig(undefined, { PERSON_ETL_CONFIG: "" })).toBe("config.yaml");
  });

  it("for the log level", async () => {
    const text = `log_level: warn\n${fine}`;
    const env = { PERSON_ETL_LOG_LEVEL: "debug" };
    expect((await load(text, { env, logLevel: "silent" })).logLevel).toBe("silent");
    expect((await load(text, { env })).logLevel).toBe("debug");
    expect((await load(text)).logLevel).toBe("warn");
    expect((await load(fine)).logLevel).toBe("info");
  });

  it("for the data folder: the file's is relative to the file, the others to the working folder", async () => {
    const text = `data_dir: data\n${fine}`;
    const env = { PERSON_ETL_DATA_DIR: "from-env" };
    expect((await load(text, { env })).dataDir).toBe(resolve("from-env"));
    const fromFile = await load(text);
    expect(fromFile.dataDir).toBe(resolve(dirname(fromFile.file), "data"));
    const byDefault = await load(fine);
    expect(byDefault.dataDir).toBe(resolve(dirname(byDefault.file), ".person-etl"));
  });

  it("an unknown level is reported with the name of the flag or variable", async () => {
    const levels = "must be one of trace, debug, info, warn, error, silent";
    expect(await problemsOf(fine, { env: { PERSON_ETL_LOG_LEVEL: "verbose" } })).toEqual([
      `- PERSON_ETL_LOG_LEVEL: ${levels} (for example info)`,
    ]);
    expect(await problemsOf(fine, { logLevel: "debig" })).toEqual([
      `- --log-level: ${levels} (found "debig") (did you mean debug?)`,
    ]);
  });
});

const aged = (age: string) => fineBut("type: resolve,", `type: resolve, refresh_after: ${age},`);

describe("an age of data", () => {
  it.each([
    ["30d", 30],
    ["6w", 42],
    ["3mo", 90],
    ["1y", 365],
  ])("of %s is %i days", async (age, days) => {
    const [job] = (await load(aged(age))).jobs;
    expect(job).toMatchObject({ refreshAfterMs: days * 86_400_000 });
  });

  it.each([
    ["1m", 'must be at least a day, and 1m would be 1 minute (found "1m") (for 1 month write 1mo)'],
    ["48h", 'is in hours (found "48h") (write 2d)'],
    ["36h", 'is in hours (found "36h") (a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y))'],
    ["43200m", 'is in minutes (found "43200m") (write 30d)'],
    ["30 minutes", 'must be at least a day (found "30 minutes") (write 1d or more)'],
    ["12h", 'must be at least a day, and 12h would be 12 hours (found "12h") (write 1d or more)'],
    ["3M", 'must be an age such as 30d (found "3M") (write 3mo)'],
    ["2years", 'must be an age such as 30d (found "2years") (write 2y)'],
  ])("written %s is refused with its likely meaning", async (age, problem) => {
    expect((await problemsOf(aged(age))).map((text) => text.split("refresh_after: ")[1])).toEqual([problem]);
  });

  it("below the least of its setting is refused", async () => {
    expect(await problemsOf(`${fine}retention: { operations: 3w }\n`)).toEqual([
      expect.stringContaining("retention.operations: must be an age of at least 30d"),
    ]);
    expect(await problemsOf(`${fine}retention: { operations: 24h }\n`)).toEqual([
      '15 retention.operations: must be an age of at least 30d (found "24h") (a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y))',
    ]);
  });
});
