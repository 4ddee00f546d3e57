import { expect, test } from "vitest";
import { readStartupFailure } from "../../src/load/embedded/programs.ts";

// Real messages of Postgres 18 and Node.
test.each([
  ['initdb: error: could not write to file "/x/data": No space left on device', "disk_full"],
  ['FATAL:  could not write lock file "postmaster.pid": No space left on device', "disk_full"],
  [
    'FATAL:  could not extend file "base/1/2691": wrote only 4096 of 8192 bytes\nHINT:  Check free disk space.',
    "disk_full",
  ],
  ["ENOSPC: no space left on device, write", "disk_full"],
  ['LOG:  could not bind IPv4 address "127.0.0.1": Address already in use', "busy"],
  ['FATAL:  lock file "postmaster.pid" already exists', "busy"],
  ["FATAL:  pre-existing shared memory block (key 4850, ID 3) is still in use", "busy"],
  ['FATAL:  configuration file "postgresql.conf" contains errors', "unknown"],
] as const)("%s is read as %s", (text, failure) => {
  expect(readStartupFailure(text)).toBe(failure);
});
