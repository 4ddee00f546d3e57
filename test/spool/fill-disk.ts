import { openSpool } from "../../src/spool/spool.ts";
import { messageOf } from "../../src/errors.ts";

// Keeps answers of the given size in the given folder until one is refused, and tells how far it came.
const [root = "", size = ""] = process.argv.slice(2);
const spool = await openSpool({
  root,
  owner: { warehouse: "w1", job: "enrich_customers", shard: "0/1" },
  maxBytes: 1e12,
});
let kept = 0;
try {
  for (; kept < 100; kept += 1) {
    const callId = `00000000-0000-4000-8000-${String(kept).padStart(12, "0")}`;
    await spool.write({
      callId,
      receivedAtMs: kept,
      header: { kept },
      body: Buffer.alloc(Number(size), "x"),
    });
  }
  process.stdout.write(JSON.stringify({ kept }));
} catch (error) {
  const code = error instanceof Error && "code" in error ? error.code : null;
  process.stdout.write(JSON.stringify({ kept, calls: spool.calls, code, message: messageOf(error) }));
}
