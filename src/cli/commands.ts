import type { Command } from "commander";
import { addAudience } from "./commands/audience.ts";
import { addCheck } from "./commands/check.ts";
import { addCheckpoint } from "./commands/checkpoint.ts";
import { addDatabase } from "./commands/database.ts";
import { addErase } from "./commands/erase.ts";
import { addExplain } from "./commands/explain.ts";
import { addInit } from "./commands/init.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addPlan } from "./commands/plan.ts";
import { addPublish } from "./commands/publish.ts";
import { addRejects } from "./commands/rejects.ts";
import { addRun } from "./commands/run.ts";
import { addSandbox } from "./commands/sandbox.ts";
import { addSchedule } from "./commands/schedule.ts";
import { addSearch } from "./commands/search.ts";
import { addStatus } from "./commands/status.ts";
import { addUi } from "./commands/ui.ts";
import type { Act, AddCommand } from "./command.ts";

/** All commands, in the order of the help. */
const COMMANDS: readonly AddCommand[] = [
  addInit,
  addCheck,
  addMigrate,
  addPlan,
  addRun,
  addExplain,
  addSchedule,
  addPublish,
  addStatus,
  addUi,
  addCheckpoint,
  addRejects,
  addErase,
  addSearch,
  addAudience,
  addSandbox,
  addDatabase,
];

/** Declares all commands. */
export function addCommands(program: Command, act: Act): void {
  for (const add of COMMANDS) add(program, act);
}
