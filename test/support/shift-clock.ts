// Loaded by `node --import` into the program under test: moves its clock by some milliseconds.
const now = Date.now.bind(Date);
const aheadMs = Number(process.env["TEST_CLOCK_AHEAD_MS"]);
Date.now = () => now() + aheadMs;
