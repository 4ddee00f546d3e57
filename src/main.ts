import { runCommandLine } from "./cli/program.ts";

/** Time for everything that a command opened to close. */
const CLOSE_MS = 2000;

// The process ends by itself once nothing is open. `process.exit()` can hang: it waits for compiler threads, which may in turn wait for a
// garbage collection by this thread (https://github.com/nodejs/node/issues/54918).
process.exitCode = await runCommandLine(process.argv.slice(2));
setTimeout(() => process.exit(), CLOSE_MS).unref();
