import { dirname, resolve } from "node:path";
import { foundText, type Problems } from "./problems.ts";
import { type LogLevel, logLevels } from "../log.ts";
import { suggest } from "../suggest.ts";
import type { Environment } from "./variables.ts";

/** Path of the configuration file: `--config`, else PERSON_ETL_CONFIG, else `config.yaml`. */
export function locateConfig(flag: string | undefined, env: Environment): string {
  return flag ?? variable(env, "PERSON_ETL_CONFIG") ?? "config.yaml";
}

/** Log level: `--log-level`, else PERSON_ETL_LOG_LEVEL, else `log_level`; adds a problem if it is unknown. */
export function chooseLogLevel(
  flag: string | undefined,
  env: Environment,
  fromFile: LogLevel,
  problems: Problems,
): LogLevel {
  const fromEnvironment = variable(env, "PERSON_ETL_LOG_LEVEL");
  const wanted = flag ?? fromEnvironment ?? fromFile;
  const level = logLevels.find((known) => known === wanted);
  if (level !== undefined) return level;
  const meant = suggest(wanted, logLevels);
  problems.addProblem({
    path: flag === undefined ? "PERSON_ETL_LOG_LEVEL" : "--log-level",
    message: `must be one of ${logLevels.join(", ")}${foundText(flag)}`,
    hint: meant === null ? "for example info" : `did you mean ${meant}?`,
  });
  return fromFile;
}

/** Absolute path of data_dir: PERSON_ETL_DATA_DIR, relative to the working directory, else relative to the file's folder. */
export function chooseDataDir(env: Environment, file: string, fromFile: string): string {
  const given = variable(env, "PERSON_ETL_DATA_DIR");
  return given === undefined ? resolve(dirname(file), fromFile) : resolve(given);
}

/** Times that only tests change. All processes that run a job must use the same `lockLifeMs`. */
export interface TestTimes {
  /** Milliseconds without a heartbeat after which another process may take over a job. */
  readonly lockLifeMs: number;
  /** Maximum time to retry work while the warehouse is unreachable. */
  readonly retryForMs: number;
}

/** Reads the times; adds a problem if a variable is invalid. */
export function chooseTimes(env: Environment, problems: Problems): TestTimes {
  const choose = (name: string, byDefault: number) => {
    const given = variable(env, name);
    if (given === undefined) return byDefault;
    if (/^[1-9]\d{2,6}$/.test(given)) return Number(given);
    problems.addProblem({
      path: name,
      message: "must be a whole number of milliseconds from 100 to 9999999",
      hint: "remove it; it is only for tests",
    });
    return byDefault;
  };
  return {
    lockLifeMs: choose("PERSON_ETL_LOCK_LIFE_MS", 30_000),
    retryForMs: choose("PERSON_ETL_RETRY_FOR_MS", 300_000),
  };
}

/** Value of a variable; an empty one counts as not set. */
function variable(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value === undefined || value.trim() === "" ? undefined : value;
}
