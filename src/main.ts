import { runCommandLine } from "./cli/program.ts";

process.exit(await runCommandLine(process.argv.slice(2)));
